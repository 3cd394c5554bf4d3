"""Transactions while the node is killed, connections are lost, and producers die and are fenced: many seeds.

A transaction's records exist as a whole, once, or not at all; and its reported outcome is true.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

import pytest

from cordwood.client.errors import (
    CannotReachCluster,
    ClientError,
    FatalTransactionError,
    TimedOut,
    TransactionAbortable,
)
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from cordwood.sim.virtual.connection import NetworkOdds
from tests.client.transacting import PARTITIONS, TOPIC, Stage, play

TRANSACTIONS = 12
ODDS = NetworkOdds(loss=0.005, late_notice_s=1.0)


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    name: bytes
    writes: Counter[int] = field(default_factory=Counter)
    """The number of records per partition."""
    fate: Fate = Fate.ABORTED


class Died(Exception):
    """The application's process; its producer says no word."""


class Application:
    """Writes transactions under one transactional id, whatever happens to its producers."""

    def __init__(self, stage: Stage, name: str, transactional_id: str, source: Random) -> None:
        self.name = name
        self.transactions: list[Transaction] = []
        self._stage = stage
        self._id = transactional_id
        self._source = source

    async def work(self) -> None:
        producer = await self._new_producer()
        while len(self.transactions) < TRANSACTIONS:
            transaction = Transaction(f"{self.name}-{len(self.transactions)}".encode())
            self.transactions.append(transaction)
            try:
                await self._transact(producer, transaction)
            except (FatalTransactionError, Died):
                await producer.close(timeout=0)
                producer = await self._new_producer()
        await producer.close(timeout=0)

    async def _new_producer(self) -> Producer:
        """A process that does not get up is started again."""
        while True:
            try:
                # Some wait out a node that is away, others see their records expire.
                delivery_ms, request_ms = self._source.choice([(20_000, 5_000), (600, 500)])
                return await self._stage.producer(
                    self._id, delivery_timeout_ms=delivery_ms, request_timeout_ms=request_ms
                )
            except (CannotReachCluster, TimedOut, FatalTransactionError):
                await asyncio.sleep(0.1)

    async def _transact(self, producer: Producer, transaction: Transaction) -> None:
        await producer.begin_transaction()
        try:
            for number in range(self._source.randint(1, 12)):
                partition = self._source.randrange(PARTITIONS)
                transaction.writes[partition] += 1
                await producer.send(TOPIC, b"%s/%d" % (transaction.name, number), partition=partition)
                if self._source.random() < 0.3:
                    await asyncio.sleep(self._source.uniform(0, 0.3))
                if self._source.random() < 0.01:
                    raise Died
            if self._source.random() < 0.2:
                await until_done(producer.abort_transaction)
                return
            transaction.fate = Fate.UNKNOWN
            await until_done(producer.commit_transaction)
            transaction.fate = Fate.COMMITTED
        except TransactionAbortable:
            transaction.fate = Fate.ABORTED
            await until_done(producer.abort_transaction)


async def until_done(call: Any) -> None:
    while True:
        try:
            await call()
            return
        except TimedOut:
            continue


async def kill_the_node(stage: Stage, source: Random) -> None:
    while True:
        await asyncio.sleep(source.uniform(0.5, 4))
        stage.node.kill()
        await asyncio.sleep(source.uniform(0, 1))
        await stage.node.start()


def check(transactions: list[Transaction], seen: list[list[bytes]]) -> None:
    found: dict[bytes, Counter[int]] = {}
    for partition, values in enumerate(seen):
        assert len(set(values)) == len(values), "twice"
        for value in values:
            found.setdefault(value.rpartition(b"/")[0], Counter())[partition] += 1
    for transaction in transactions:
        there = found.get(transaction.name, Counter())
        if transaction.fate is Fate.COMMITTED:
            assert there == transaction.writes, transaction
        elif transaction.fate is Fate.ABORTED:
            assert not there, transaction
        else:
            assert there in (Counter(), transaction.writes), transaction


async def outlive(stage: Stage, applications: Sequence[Application]) -> list[Transaction]:
    """They work until they are through, while the node is killed again and again."""
    killing = asyncio.ensure_future(kill_the_node(stage, stage.world.random("kills")))
    await asyncio.gather(*(application.work() for application in applications))
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    if not stage.node.is_up:
        await stage.node.start()
    # Transactions of dead producers have ended.
    await asyncio.sleep(120)
    return [one for application in applications for one in application.transactions]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_a_transaction_is_there_as_a_whole_or_not_at_all(seed: int, version: int) -> None:
    async def scene(stage: Stage) -> None:
        source = stage.world.random("applications")
        # Two have the same id, and fence each other.
        names = [("first", "a"), ("second", "b"), ("third", "b")]
        applications = [Application(stage, *name, Random(source.random())) for name in names]
        transactions = await outlive(stage, applications)
        assert any(one.fate is Fate.COMMITTED for one in transactions)
        check(transactions, await read(stage))

    play(scene, version=version, seed=seed, odds=ODDS)


async def read(stage: Stage) -> list[list[bytes]]:
    while True:
        try:
            return await stage.committed()
        except (CannotReachCluster, ClientError):
            continue


class Database:
    """Where an application keeps its decisions; it does not fail."""

    def __init__(self) -> None:
        self.state = ""


class PreparingApplication(Application):
    """Decides by its own commit, in two phases (KIP-939), and dies at any point of that."""

    def __init__(self, stage: Stage, name: str, source: Random) -> None:
        super().__init__(stage, name, name, source)
        self._database = Database()

    async def _new_producer(self) -> Producer:
        while True:
            try:
                producer = await self._stage.producer(
                    self._id, keep_prepared=True, transaction_two_phase_commit_enable=True
                )
            except (CannotReachCluster, TimedOut):
                await asyncio.sleep(0.1)
            else:
                break
        # Prepared transactions end as decided.
        decided = PreparedTxnState.parse(self._database.state)
        await until_done(lambda: producer.complete_transaction(decided))
        return producer

    async def _transact(self, producer: Producer, transaction: Transaction) -> None:
        await producer.begin_transaction()
        try:
            for number in range(self._source.randint(1, 6)):
                partition = self._source.randrange(PARTITIONS)
                transaction.writes[partition] += 1
                await producer.send(TOPIC, b"%s/%d" % (transaction.name, number), partition=partition)
            await self._live(0.3)
            state = await producer.prepare_transaction()
        except TransactionAbortable:
            await until_done(producer.abort_transaction)
            return
        await self._live(1.0)
        self._database.state = str(state)
        transaction.fate = Fate.COMMITTED
        await self._live(1.0)
        await until_done(lambda: producer.complete_transaction(state))

    async def _live(self, up_to_s: float) -> None:
        await asyncio.sleep(self._source.uniform(0, up_to_s))
        if self._source.random() < 0.15:
            raise Died


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_a_prepared_transaction_ends_as_the_application_decides(seed: int, version: int) -> None:
    async def scene(stage: Stage) -> None:
        source = stage.world.random("applications")
        applications = [PreparingApplication(stage, name, Random(source.random())) for name in ("first", "second")]
        transactions = await outlive(stage, applications)
        assert all(one.fate is not Fate.UNKNOWN for one in transactions)
        check(transactions, await read(stage))

    play(scene, version=version, seed=seed, odds=ODDS)
