"""A transaction is committed as a whole or not at all: its records in every partition, and its offsets.

An acknowledged commit is committed, a transaction without a commit request is not, and each one ends. A prepared
transaction in the ledger of an external coordinator (KIP-939) is committed by its producer's successor.
"""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Outcome, Promise, Send
from cordwood.sim.histories.transactions import Fate, Transaction

from .decided import decided
from .violation import Violation


def transactions_are_all_or_nothing(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX:
        return
    truth = {partition: decided(log) for partition, log in history.final.items()}
    for partition, log in history.final.items():
        if truth[partition].open or (0 <= log.last_stable_offset < log.high_watermark):
            name = f"{partition[0]}-{partition[1]}"
            yield Violation(
                "every transaction ends",
                f"{name} ends at {log.high_watermark}, is stable up to {log.last_stable_offset}; open are "
                f"{sorted(truth[partition].open)[:10]}",
            )
    sends: dict[int, list[Send]] = {}
    for send in history.sends:
        if send.transaction >= 0 and send.partition in truth and send.outcome is Outcome.ACKNOWLEDGED:
            sends.setdefault(send.transaction, []).append(send)
    for transaction in history.transactions.transactions:
        ends = {
            (truth[send.partition].of(offset), send)
            for send in sends.get(transaction.number, [])
            for offset in range(send.base_offset, send.last_offset + 1)
        }
        yield from _judged(transaction, sorted({end for end, _ in ends}), history)


def _judged(transaction: Transaction, ends: list[str], history: History) -> Iterator[Violation]:
    if len(ends) > 1:
        yield Violation("a transaction is committed as a whole", f"its records are {ends}: {transaction}")
    elif transaction.fate is Fate.COMMITTED and ends not in ([], ["committed"]):
        yield Violation("committed transactions stay committed", f"its records are {ends}: {transaction}")
    elif transaction.is_in_ledger and ends not in ([], ["committed"]):
        yield Violation("prepared transactions can be committed", f"its records are {ends}: {transaction}")
    elif transaction.fate is Fate.NOT_COMMITTED and "committed" in ends:
        yield Violation("only transactions with a commit request are committed", str(transaction))
    told = {read.metadata for read in history.groups.offset_reads}
    seen = [
        commit
        for commit in history.groups.commits
        if commit.transaction == transaction.number and str(commit.number) in told
    ]
    if seen and "aborted" in ends:
        yield Violation("a transaction is committed with its offsets", f"{seen[0]} was seen; {transaction} is aborted")
