"""The producer on a real node, also one that is restarted or killed under it: nothing is lost, nothing is twice."""

import asyncio
from collections.abc import Callable

import pytest

import cordwood.testing
from cordwood.client.addresses import parse_bootstrap
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, RecordTooLarge
from cordwood.client.producer.deliveries import UNKNOWN
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.process import ProcessNode
from cordwood.testing.pytest_plugin import Cordwood
from cordwood.wire.record import ConsumerRecord
from tests.client.reading import consumer

PARTITIONS = 3


def producer_of(bootstrap: str, settings: ProducerSettings | None = None) -> Producer:
    return Producer(settings or ProducerSettings(), parse_bootstrap(bootstrap), network=SocketNetwork())


async def read_all(bootstrap: str, topic: str) -> list[list[ConsumerRecord]]:
    """Of each partition."""
    async with consumer(bootstrap) as reader:
        partitions = [TopicPartition(topic, number) for number in sorted(await reader.partitions_for(topic))]
        reader.assign(partitions)
        ends = await reader.end_offsets(partitions)
        records: dict[TopicPartition, list[ConsumerRecord]] = {partition: [] for partition in partitions}
        while any([await reader.position(partition) < end for partition, end in ends.items()]):
            for partition, found in (await reader.poll(100)).items():
                records[partition] += found
        return list(records.values())


async def produce_through(
    node: ProcessNode, topic: str, trouble: Callable[[], None], settings: ProducerSettings
) -> None:
    """Sends without a pause, before, while and after the trouble continues in another thread."""
    loop = asyncio.get_running_loop()
    sent = 0
    deliveries = []

    async def send(producer: Producer, count: int) -> None:
        nonlocal sent
        for _ in range(count):
            deliveries.append(await producer.send(topic, b"%d" % sent, partition=sent % PARTITIONS))
            sent += 1

    async with producer_of(node.bootstrap, settings) as producer:
        await send(producer, 1_000)
        await deliveries[0]
        troubled = loop.run_in_executor(None, trouble)
        while not troubled.done():
            await send(producer, 50)
            await asyncio.sleep(0.002)
        await troubled
        await send(producer, 1_000)
        metadata = [await delivery for delivery in deliveries]
    for partition, records in enumerate(await read_all(node.bootstrap, topic)):
        expected = [b"%d" % number for number in range(partition, sent, PARTITIONS)]
        assert [record.value for record in records] == expected
        offsets = [told.offset for told in metadata if told.partition == partition]
        # A broker that was restarted may know of a batch no more than that it has it.
        assert all(told in (record.offset, UNKNOWN) for told, record in zip(offsets, records, strict=True))


@pytest.mark.parametrize("batch_size", [500, 16_384])
def test_a_node_that_is_restarted_under_load_has_every_record_once(batch_size: int) -> None:
    with cordwood.testing.node(subprocess=True) as node:
        topic = node.topic(partitions=PARTITIONS)
        asyncio.run(produce_through(node, topic, node.restart, ProducerSettings(batch_size=batch_size)))


def test_a_node_that_is_killed_under_load_has_every_record_once() -> None:
    with cordwood.testing.node(subprocess=True) as node:
        topic = node.topic(partitions=PARTITIONS)

        def trouble() -> None:
            for _ in range(2):
                node.kill()
                node.start()

        asyncio.run(produce_through(node, topic, trouble, ProducerSettings(batch_size=500)))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_as_they_were_sent(cordwood: Cordwood, compression: str) -> None:
    topic = cordwood.topic()

    async def scene() -> None:
        async with producer_of(cordwood.bootstrap, ProducerSettings(compression_type=compression)) as producer:
            await producer.send(topic, "text", "key", headers=[("h", b"1"), ("n", None)], timestamp_ms=5)
            await producer.send(topic, None, b"key", timestamp_ms=6)
            await producer.send(topic, b"", None, timestamp_ms=7)
        (records,) = await read_all(cordwood.bootstrap, topic)
        assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in records] == [
            (5, b"key", b"text", [("h", b"1"), ("n", None)]),
            (6, b"key", None, []),
            (7, None, b"", []),
        ]

    asyncio.run(scene())


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_each_kind_of_acknowledgement(cordwood: Cordwood, acks: int) -> None:
    topic = cordwood.topic()

    async def scene() -> None:
        async with producer_of(cordwood.bootstrap, ProducerSettings(acks=acks)) as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(100)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
        records: list[ConsumerRecord] = []
        # With acks=0 the time of the write is unknown.
        while len(records) < 100:
            (records,) = await read_all(cordwood.bootstrap, topic)
        assert [record.value for record in records] == [b"%d" % number for number in range(100)]

    asyncio.run(scene())


def test_with_log_append_time_the_time_is_the_brokers(cordwood: Cordwood) -> None:
    topic = cordwood.topic(configs={"message.timestamp.type": "LogAppendTime"})

    async def scene() -> int:
        async with producer_of(cordwood.bootstrap) as producer:
            return (await producer.send_and_wait(topic, b"x", timestamp_ms=5)).timestamp

    assert asyncio.run(scene()) > 1_600_000_000_000


def test_a_batch_larger_than_the_topic_takes_arrives_in_parts_and_a_record_that_is_larger_does_not(
    cordwood: Cordwood,
) -> None:
    topic = cordwood.topic(configs={"max.message.bytes": "2000"})

    async def scene() -> None:
        async with producer_of(cordwood.bootstrap, ProducerSettings(linger_ms=50)) as producer:
            deliveries = [await producer.send(topic, b"%04d" % number * 20) for number in range(100)]
            too_large = await producer.send(topic, b"x" * 3_000)
            after = await producer.send(topic, b"after")
            assert [(await delivery).offset for delivery in deliveries] == list(range(100))
            with pytest.raises(RecordTooLarge):
                await too_large
            assert (await after).offset == 100

    asyncio.run(scene())


def test_the_record_that_a_compacted_topic_refuses_is_named_and_later_ones_are_written(cordwood: Cordwood) -> None:
    topic = cordwood.topic(configs={"cleanup.policy": "compact"})

    async def scene() -> None:
        async with producer_of(cordwood.bootstrap, ProducerSettings(linger_ms=50)) as producer:
            fine = await producer.send(topic, b"x", b"key")
            keyless = await producer.send(topic, b"x")
            with pytest.raises(BrokerError, match="key"):
                await keyless
            with pytest.raises(BrokerError, match="another record in its batch"):
                await fine
            assert (await producer.send_and_wait(topic, b"x", b"key")).offset == 0

    asyncio.run(scene())
