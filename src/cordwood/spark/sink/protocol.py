"""The driver's protocol for exactly-once writes. No I/O; docs/adr/0005-spark-sink.md has the proof.

Each is a generator of effects, which is sent the result of each; it may be killed between any two of them, or during
one.

    steps = commit_batch("query", "run", 7, [task, ...])
    effect = next(steps)
    effect = steps.send(performed(effect))
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.sink.effects import Decide, Effect, End, ListOpen, OwnLedger, Pause, ReadLedger
from cordwood.spark.sink.ledger_entry import LedgerEntry
from cordwood.spark.sink.transactions import Scope

T = TypeVar("T")
Steps: TypeAlias = Generator[Effect, Any, T]

ENDS_AT_ONCE = 100
"""The maximum number of EndTxn requests in flight per commit."""
NOTHING_DECIDED = -1
"""The batch of an entry that only counts a sweep, before the query's first decision."""
_LOOKS = 3
_BETWEEN_LOOKS_S = 1.0


class CannotDecide(Exception):
    """The batch cannot be committed; the query's next run may succeed."""


class LedgerLost(CannotDecide):
    """Tasks have found a decision that is not there any more."""


class SweptAway(CannotDecide):
    """Another driver of the query has aborted transactions that were opened after our tasks began."""


class Outcome(Enum):
    DECIDED = "decided"
    DECIDED_BEFORE = "already decided"


def commit_batch(
    scope: Scope,
    batch: int,
    ours: Sequence[LeftTransaction],
    *,
    begun_at: Collection[int] = (),
    found_decided: bool = False,
    at_once: int = ENDS_AT_ONCE,
) -> Steps[Outcome]:
    """`ours` are the transactions that this run's tasks have left, and `begun_at` the numbers of sweeps that they began
    at; `found_decided`: a task saw the batch decided."""
    yield OwnLedger(scope.query)
    last: LedgerEntry | None = yield ReadLedger(scope.query)
    if last is not None and last.batch >= batch:
        yield from _accept(scope, last, batch, ours, at_once)
        return Outcome.DECIDED_BEFORE
    if found_decided:
        raise LedgerLost(
            f"batch {batch} of query {scope.query} was in the ledger when its tasks began, but no longer is; "
            "was the ledger topic deleted?"
        )
    sweeps = 0 if last is None else last.sweeps
    if any(seen != sweeps for seen in begun_at):
        raise SweptAway(
            f"another driver of query {scope.query} has continued from batch {batch - 1} while batch {batch} was "
            "written here, and has aborted it; the query can be started again"
        )
    # A transaction that is open before the decision and not named by it can never be committed: it belongs to this
    # batch or an older one.
    open_before: Sequence[LeftTransaction] = yield ListOpen(scope.of_query)
    yield Decide(scope.query, LedgerEntry(batch, scope.run, tuple(ours), sweeps))
    yield from _end(ours, commit=True, at_once=at_once)
    yield from _end(_others(open_before, ours), commit=False, at_once=at_once)
    return Outcome.DECIDED


def abort_batch(
    scope: Scope, batch: int, ours: Sequence[LeftTransaction], *, at_once: int = ENDS_AT_ONCE
) -> Steps[None]:
    """Spark also aborts after a failed commit, which may have failed after its decision: that remains valid."""
    if not ours:
        return
    yield OwnLedger(scope.query)
    last: LedgerEntry | None = yield ReadLedger(scope.query)
    decided = last.transactions if last is not None and last.batch == batch else ()
    yield from _end(_others(ours, decided), commit=False, at_once=at_once)


def sweep_run(scope: Scope, *, at_once: int = ENDS_AT_ONCE) -> Steps[int]:
    """Ends the open transactions of a run that was stopped in the middle of a batch: commits the decided ones, and
    aborts the rest. Returns the number of aborted ones. May be called at any time, also while the run or another one is
    alive.
    """
    left: Sequence[LeftTransaction] = yield ListOpen(scope.prefix)
    if not left:
        # Owning the ledger would fail a commit that another driver has in progress.
        return 0
    yield OwnLedger(scope.query)
    last: LedgerEntry | None = yield ReadLedger(scope.query)
    if last is None:
        last = LedgerEntry(NOTHING_DECIDED, scope.run, ())
    yield from _end(_common(left, last.transactions), commit=True, at_once=at_once)
    orphans = _others(left, last.transactions)
    if orphans:
        yield from _sweep(scope, last, orphans, at_once)
    return len(orphans)


def commit_job(scope: Scope, ours: Sequence[LeftTransaction], *, at_once: int = ENDS_AT_ONCE) -> Steps[None]:
    """Commits a batch job, which is never replayed: there is nothing to record."""
    yield from _end(ours, commit=True, at_once=at_once)
    # Attempts that have lost.
    open_after: Sequence[LeftTransaction] = yield ListOpen(scope.prefix)
    yield from _end(_others(open_after, ours), commit=False, at_once=at_once)


def abort_job(scope: Scope, ours: Sequence[LeftTransaction], *, at_once: int = ENDS_AT_ONCE) -> Steps[None]:
    """Spark does not wait for the other tasks of a job that fails, and no successor ends their transactions."""
    left = frozenset(ours)
    for look in range(_LOOKS):
        if look:
            yield Pause(_BETWEEN_LOOKS_S)
        open_now: Sequence[LeftTransaction] = yield ListOpen(scope.prefix)
        yield from _end(left.union(open_now), commit=False, at_once=at_once)
        left = frozenset()


def sweep_job(scope: Scope, *, at_once: int = ENDS_AT_ONCE) -> Steps[None]:
    """Aborts a job that was stopped before its commit began, once its tasks have ended."""
    left: Sequence[LeftTransaction] = yield ListOpen(scope.prefix)
    yield from _end(left, commit=False, at_once=at_once)


def _accept(scope: Scope, last: LedgerEntry, batch: int, ours: Sequence[LeftTransaction], at_once: int) -> Steps[None]:
    """A former life, or another driver, has decided this batch; it may not have come to its end."""
    if last.batch > batch:
        yield from _end(_others(ours, last.transactions), commit=False, at_once=at_once)
        return
    yield from _end(last.transactions, commit=True, at_once=at_once)
    open_before: Sequence[LeftTransaction] = yield ListOpen(scope.of_query)
    orphans = _others(open_before, (*ours, *last.transactions))
    rejected = _others(ours, last.transactions)
    if orphans:
        yield from _sweep(scope, last, (*rejected, *orphans), at_once)
    else:
        yield from _end(rejected, commit=False, at_once=at_once)


def _sweep(scope: Scope, last: LedgerEntry, orphans: Iterable[LeftTransaction], at_once: int) -> Steps[None]:
    """Aborts transactions opened after the last decision. Its driver may be alive, and some of these may belong to its
    next batch: the new number in the ledger keeps it from deciding that."""
    yield Decide(scope.query, replace(last, sweeps=last.sweeps + 1))
    # Our own next tasks must see the number: they read committed entries, and this waits for the commit.
    yield ReadLedger(scope.query)
    yield from _end(orphans, commit=False, at_once=at_once)


def _common(some: Iterable[LeftTransaction], others: Iterable[LeftTransaction]) -> list[LeftTransaction]:
    included = frozenset(others)
    return [left for left in some if left in included]


def _others(some: Iterable[LeftTransaction], than: Iterable[LeftTransaction]) -> list[LeftTransaction]:
    excluded = frozenset(than)
    return [left for left in some if left not in excluded]


def _end(transactions: Iterable[LeftTransaction], *, commit: bool, at_once: int) -> Steps[None]:
    for some in _waves(transactions, at_once):
        yield End(some, commit)


def _waves(transactions: Iterable[LeftTransaction], size: int) -> Iterator[tuple[LeftTransaction, ...]]:
    left = iter(transactions)
    while some := tuple(islice(left, size)):
        yield some
