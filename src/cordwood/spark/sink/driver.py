"""Performs the effects of the driver's protocol on a cluster, and returns their results."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, assert_never

from cordwood.client.admin.transaction_ends import end_transactions
from cordwood.client.admin.transactions import TransactionDescription, describe_transactions, list_transactions
from cordwood.client.errors import BrokerError
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.errors import SparkError
from cordwood.spark.sink.effects import Decide, Effect, End, ListOpen, OwnLedger, Pause, ReadLedger
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.points import Point
from cordwood.spark.sink.protocol import Steps
from cordwood.spark.sink.transactions import ledger_id

T = TypeVar("T")
Reached = Callable[[Point], None]

_OPEN = "Ongoing"
_ABORTED = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence", "Dead"})
_COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
_FEATURE = "transaction.version"
_VERSION_2 = 2


class TransactionLost(SparkError):
    """A batch was decided, but a part of it can no longer be committed."""


class TakenOver(SparkError):
    """Another driver of the same query has ended this batch, and is in a later one."""


async def perform(outlet: Outlet, steps: Steps[T], reached: Reached) -> T:
    """Runs the protocol and returns its result. Calls `reached` at points that tests know by name."""
    driver = _Driver(outlet, reached)
    reached(Point.COMMIT_BEGUN)
    try:
        effect = next(steps)
        while True:
            effect = steps.send(await driver.do(effect))
    except StopIteration as stop:
        reached(Point.AFTER_ENDS)
        result: T = stop.value
        return result
    finally:
        steps.close()


class _Driver:
    def __init__(self, outlet: Outlet, reached: Reached) -> None:
        self._outlet = outlet
        self._reached = reached
        self._owner: Producer | None = None
        self._has_ended_some = False

    async def do(self, effect: Effect) -> Any:
        match effect:
            case OwnLedger(query):
                # The topic is created first: its owner may have to write.
                await (await self._outlet.ledger()).partition_of(query)
                self._owner = await self._outlet.deciding_as(ledger_id(query))
            case ReadLedger(query):
                return await (await self._outlet.ledger()).read(query, latest=True)
            case ListOpen(prefix):
                return await self._list_open(prefix)
            case Decide(query, entry):
                assert self._owner is not None, "only the owner of the ledger decides"
                self._reached(Point.BEFORE_DECISION)
                try:
                    await (await self._outlet.ledger()).write(self._owner, query, entry)
                except BaseException:
                    await self._outlet.drop_producer()
                    raise
                self._reached(Point.AFTER_DECISION)
            case End(transactions, commit):
                if self._has_ended_some:
                    self._reached(Point.BETWEEN_ENDS)
                self._has_ended_some = True
                await self._end(transactions, commit)
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case _:
                assert_never(effect)
        return None

    async def _list_open(self, prefix: str) -> tuple[LeftTransaction, ...]:
        client = await self._outlet.client()
        listed = await list_transactions(client, states=[_OPEN])
        names = [listing.transactional_id for listing in listed if listing.transactional_id.startswith(prefix)]
        if not names:
            return ()
        described = await describe_transactions(client, names)
        versions = (await client.any_broker()).versions
        is_version_2 = versions.finalized_features.get(_FEATURE, 0) >= _VERSION_2
        return tuple(
            LeftTransaction(told.transactional_id, told.producer_id, told.producer_epoch, is_version_2)
            for told in described.values()
            if isinstance(told, TransactionDescription) and told.state == _OPEN
        )

    async def _end(self, transactions: tuple[LeftTransaction, ...], commit: bool) -> None:
        outcomes = await end_transactions(await self._outlet.client(), transactions, commit=commit)
        failed = {left: error for left, error in outcomes.items() if error is not None}
        if not failed:
            return
        left, error = next(iter(failed.items()))
        if not commit:
            raise error
        again = await self._used_again(tuple(failed))
        if again is not None:
            raise TakenOver(_taken_over(again))
        where = f" to topic {self._outlet.options.topic}" if self._outlet.options.topic else ""
        raise TransactionLost(_lost(left, error, len(failed), len(transactions), where))

    async def _used_again(self, transactions: tuple[LeftTransaction, ...]) -> LeftTransaction | None:
        """Returns one whose name a later batch uses. Then the run that decided this batch has completed it, because
        only that run uses the name, and not earlier: these have been committed."""
        names = [left.transactional_id for left in transactions]
        described = await describe_transactions(await self._outlet.client(), names)
        for left in transactions:
            told = described[left.transactional_id]
            if isinstance(told, TransactionDescription) and _is_later(told, left):
                return left
        return None


def _is_later(told: TransactionDescription, than: LeftTransaction) -> bool:
    """Returns whether the coordinator reports a later transaction. If that was aborted, it may be this one."""
    if told.state in _ABORTED:
        return False
    # With `transaction.version` 2 the end has its own epoch.
    last_epoch = than.epoch + (1 if told.state in _COMMITTED else 0)
    return told.producer_id != than.producer_id or told.producer_epoch > last_epoch


def _taken_over(left: LeftTransaction) -> str:
    return (
        f"another driver of this query has committed the batch that is committed here, and is writing a later one "
        f"({left.transactional_id} is used again): it has taken over, and nothing is lost; let only one of them run"
    )


def _lost(left: LeftTransaction, error: BrokerError, failed: int, asked: int, where: str) -> str:
    return (
        f"{failed} of {asked} transactions{where} of a batch that is decided cannot be committed, so that their rows "
        f"are lost: the first is {left.transactional_id} of producer {left.producer_id}, epoch {left.epoch} ({error}). "
        "Brokers abort transactions that are open for longer than kafka.transaction.timeout.ms, unless they allow two "
        "phases (transaction.two.phase.commit.enable)"
    )
