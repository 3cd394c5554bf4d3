"""A consumer that reads from the in-sync replica in its rack (KIP-392), on three brokers in virtual time."""

from __future__ import annotations

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

T0 = TopicPartition("t", 0)
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def write(cluster: ThreeBrokers, *values: str) -> None:
    response = await cluster.ask(1, produce("t", batch(*values)), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def take(consumer: Consumer, count: int) -> list[bytes | None]:
    taken: list[bytes | None] = []
    while len(taken) < count:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            taken += [record.value for record in records]
    return taken


def nearest(consumer: Consumer) -> int | None:
    """The broker that the leader names as the nearest replica."""
    return consumer._subscription.state(T0).preferred_replica


def test_a_consumer_reads_from_the_replica_in_its_rack_and_from_the_leader_when_that_dies() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        await write(cluster, "a", "b")
        async with cluster.consumer(client_rack="rack2") as consumer:
            consumer.assign([T0])
            assert await take(consumer, 2) == [b"a", b"b"]
            assert nearest(consumer) == 2
            await write(cluster, "c")
            assert await take(consumer, 1) == [b"c"]
            assert nearest(consumer) == 2
            cluster.kill(2)
            await write(cluster, "d")
            assert await take(consumer, 1) == [b"d"]
            assert nearest(consumer) is None

    with_three_brokers(test, replica_selector_class=SELECTOR)


def test_an_offset_that_is_not_at_the_nearest_replica_any_more_is_reset() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        await write(cluster, *"abcdef")
        async with cluster.consumer(client_rack="rack3") as consumer:
            consumer.assign([T0])
            await take(consumer, 6)
            assert nearest(consumer) == 3
            deleted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
            await cluster.ask(1, DeleteRecordsRequest(topics=[deleted], timeout_ms=10_000), 2)
            consumer.seek(T0, 1)
            assert await take(consumer, 2) == [b"e", b"f"]
            await write(cluster, "g")
            assert await take(consumer, 1) == [b"g"]
            assert nearest(consumer) == 3

    with_three_brokers(test, replica_selector_class=SELECTOR)
