"""Exactly once while brokers die: records are read, transformed and written in transactions, with the offsets.

Each input is seen once in the output, whatever dies in between: a partition's leader, a coordinator, or both.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.errors import TransactionAbortable
from cordwood.client.producer.producer import Producer
from cordwood.wire.record import ConsumerRecord
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

INPUTS = 60
CRASHES = 4
# The duration of the last transactions, in virtual time.
PATIENCE_S = 200.0


class Transformer:
    """Reads from "in" and writes to "out", with one producer and one consumer, whatever happens to brokers."""

    def __init__(self, cluster: ThreeBrokers, name: str) -> None:
        self._cluster = cluster
        self._name = name

    async def run(self) -> None:
        producer = await self._cluster.transactional(self._name)
        async with self._cluster.consumer("in", group_id="g", isolation_level="read_committed") as consumer:
            while True:
                found = await consumer.getmany(timeout_ms=500, max_records=7)
                if found:
                    await self._transform(consumer, producer, found)

    async def _transform(
        self, consumer: Consumer, producer: Producer, found: Mapping[TopicPartition, Sequence[ConsumerRecord]]
    ) -> None:
        await producer.begin_transaction()
        try:
            for partition, records in found.items():
                for record in records:
                    await producer.send("out", record.value, partition=partition.partition)
            offsets = {partition: records[-1].offset + 1 for partition, records in found.items()}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            await producer.commit_transaction()
        except TransactionAbortable:
            await producer.abort_transaction()
            for partition, records in found.items():
                if partition in consumer.assignment():
                    consumer.seek(partition, records[0].offset)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_each_input_counts_once_while_brokers_crash(seed: int, version: int) -> None:
    source = Random(f"{seed}/{version}")

    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("in", 1, 2, 3, min_insync_replicas="2")
        await cluster.create("out", 2, 3, 1, min_insync_replicas="2")
        transformers = [asyncio.ensure_future(Transformer(cluster, f"transformer-{name}").run()) for name in "ab"]

        async def write() -> None:
            async with cluster.producer(enable_idempotence=True) as producer:
                for number in range(INPUTS):
                    await (await producer.send("in", str(number).encode(), partition=number % 3))
                    await asyncio.sleep(source.uniform(0, 0.5))

        writing = asyncio.ensure_future(write())
        for _ in range(CRASHES):
            await asyncio.sleep(source.uniform(0, 6))
            broker_id = source.choice([1, 2, 3])
            cluster.kill(broker_id)
            await asyncio.sleep(source.uniform(0, 5))
            await cluster.restart(broker_id)
        await writing
        expected: Counter[bytes | None] = Counter(str(number).encode() for number in range(INPUTS))
        deadline = cluster.world.loop.time() + PATIENCE_S
        while (found := Counter(await cluster.committed("out"))) != expected:
            assert not found - expected, "something counts twice"
            for task in transformers:
                if task.done():
                    task.result()
            assert cluster.world.loop.time() < deadline, f"missing: {expected - found}"
            await asyncio.sleep(1)
        for task in transformers:
            task.cancel()
        await asyncio.gather(*transformers, return_exceptions=True)

    with_three_brokers(test, seed=seed, transaction_version=version)
