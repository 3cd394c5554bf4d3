"""Cordwood's own client at work: one side sends numbers without a pause, the other reads them, until stopped.

Once with threads, once with asyncio; plainly, or in transactions some of which are aborted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Event

import cordwood.aio
from cordwood import Consumer, Delivery, Producer, TopicPartition, TransactionAbortable
from cordwood.wire.record import ConsumerRecord
from tests.foreign_clients.cordwood_client import connection_settings, opened
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, eventually

PARTITIONS = 3
# Records of the node's previous run whose acknowledgement was lost: it remembers only a producer's last batch.
UNKNOWN_OFFSET = -1
_BURST = 50
_PAUSE_S = 0.002
_PER_TRANSACTION = 10
_ABORTED_EVERY = 4


@dataclass(slots=True)
class Flow:
    """The state of a flow. It continues until `end`."""

    sent: int = 0
    """Numbers that must each be read once."""
    offsets: list[int] = field(default_factory=list)
    """As they were acknowledged, where they are asked for: of 0, 1, 2, …"""
    read: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    """For each partition: offset and number."""
    end: Event = field(default_factory=Event)
    is_sent: Event = field(default_factory=Event)

    @property
    def read_count(self) -> int:
        return sum(map(len, self.read))

    def await_more(self, count: int = 500) -> None:
        """Until so many more were read."""
        before = self.read_count
        eventually(lambda: self.read_count, lambda now: now >= before + count)

    def check(self) -> None:
        """Nothing is lost, nothing is there twice, and each partition has its own in their order."""
        for partition, read in enumerate(self.read):
            assert [number for _, number in read] == list(range(partition, self.sent, PARTITIONS))
            if self.offsets:
                told = self.offsets[partition::PARTITIONS]
                wrong = [pair for pair in zip(read, told, strict=True) if pair[1] not in (pair[0][0], UNKNOWN_OFFSET)]
                assert wrong == [], wrong[:10]

    def take(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self.read[record.partition].append((record.offset, int(record.value)))

    def is_read(self) -> bool:
        return self.is_sent.is_set() and self.read_count >= self.sent


class _ChangedMind(Exception):
    """Aborts a transaction for no reason but to see that it leaves nothing behind."""


def _attempts(flow: Flow) -> Iterator[Callable[[], None]]:
    """One for each transaction, to be called at its end."""
    for number in count(1):
        if flow.end.is_set():
            return

        def finish(is_aborted: bool = number % _ABORTED_EVERY == 0) -> None:
            if is_aborted:
                raise _ChangedMind

        yield finish


def _producer_settings(transactional_id: str | None = None) -> dict[str, object]:
    return {"transactional.id": transactional_id, "batch.size": 2000, "linger.ms": 1}


_READING = {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "fetch.max.wait.ms": 50}


# ---- with threads


@contextmanager
def flow_of_threads(address: Address, topic: str, *, transactional: bool = False) -> Iterator[Flow]:
    """At the end of `with` all records have been read."""
    flow = Flow()
    with ThreadPoolExecutor(2) as pool:
        sending = pool.submit(_send_in_transactions if transactional else _send, flow, address, topic)
        reading = pool.submit(_read, flow, address, topic)
        try:
            yield flow
        finally:
            flow.end.set()
            for side in (sending, reading):
                side.result(2 * PATIENCE_S)


def _send(flow: Flow, address: Address, topic: str) -> None:
    deliveries: list[Delivery] = []
    try:
        with opened(lambda: Producer(_producer_settings(), **connection_settings(address))) as producer:
            while not flow.end.wait(_PAUSE_S):
                deliveries += [
                    producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                    for number in range(flow.sent, flow.sent + _BURST)
                ]
                flow.sent += _BURST
            flow.offsets += [delivery.result(PATIENCE_S).offset for delivery in deliveries]
    finally:
        flow.is_sent.set()


def _send_in_transactions(flow: Flow, address: Address, topic: str) -> None:
    try:
        with opened(lambda: Producer(_producer_settings(topic), **connection_settings(address))) as producer:
            producer.init_transactions()
            for finish in _attempts(flow):
                try:
                    with producer.transaction():
                        for number in range(flow.sent, flow.sent + _PER_TRANSACTION):
                            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                        finish()
                except (_ChangedMind, TransactionAbortable):
                    continue
                flow.sent += _PER_TRANSACTION
    finally:
        flow.is_sent.set()


def _read(flow: Flow, address: Address, topic: str) -> None:
    with opened(lambda: Consumer(_READING, **connection_settings(address))) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        while not flow.is_read():
            for records in consumer.poll(timeout_ms=100).values():
                flow.take(records)


# ---- with asyncio


@asynccontextmanager
async def flow_of_tasks(address: Address, topic: str, *, transactional: bool = False) -> AsyncIterator[Flow]:
    flow = Flow()
    async with asyncio.timeout(4 * PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task((_send_in_transactions_async if transactional else _send_async)(flow, address, topic))
        group.create_task(_read_async(flow, address, topic))
        try:
            yield flow
        finally:
            flow.end.set()


async def _send_async(flow: Flow, address: Address, topic: str) -> None:
    deliveries: list[Delivery] = []
    try:
        async with cordwood.aio.Producer(_producer_settings(), **connection_settings(address)) as producer:
            while not flow.end.is_set():
                deliveries += [
                    await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                    for number in range(flow.sent, flow.sent + _BURST)
                ]
                flow.sent += _BURST
                await asyncio.sleep(_PAUSE_S)
            flow.offsets += [(await delivery).offset for delivery in deliveries]
    finally:
        flow.is_sent.set()


async def _send_in_transactions_async(flow: Flow, address: Address, topic: str) -> None:
    try:
        async with cordwood.aio.Producer(_producer_settings(topic), **connection_settings(address)) as producer:
            await producer.init_transactions()
            for finish in _attempts(flow):
                try:
                    async with producer.transaction():
                        for number in range(flow.sent, flow.sent + _PER_TRANSACTION):
                            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                        finish()
                except (_ChangedMind, TransactionAbortable):
                    continue
                flow.sent += _PER_TRANSACTION
    finally:
        flow.is_sent.set()


async def _read_async(flow: Flow, address: Address, topic: str) -> None:
    async with cordwood.aio.Consumer(_READING, **connection_settings(address)) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        while not flow.is_read():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                flow.take(records)
