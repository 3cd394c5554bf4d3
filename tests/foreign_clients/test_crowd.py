"""Many connections at once."""

import asyncio
import resource

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]

from tests.foreign_clients.aiokafka_client import connection_settings, consumer_settings
from tests.foreign_clients.kafka_client import Address, eventually
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_process import TELLS_OF_PROCESSES, NodeProcess

PROGRAMS = 250
PARTITIONS = 10


def test_five_hundred_connections_write_and_read_at_once(
    node: NodeProcess | None, address: Address, librdkafka: LibrdkafkaClient, topic: str
) -> None:
    """Each of 250 programs has a producer and a consumer, all of them open together."""
    _allow_descriptors(4096)
    librdkafka.create_topic(topic, PARTITIONS)
    eventually(lambda: librdkafka.leaders(topic), lambda leaders: len(leaders) == PARTITIONS)
    asyncio.run(_crowd(address, topic, node))


async def _crowd(address: Address, topic: str, node: NodeProcess | None) -> None:
    settings = connection_settings(address)
    producers = [AIOKafkaProducer(**settings) for _ in range(PROGRAMS)]
    consumers = [AIOKafkaConsumer(**settings, **consumer_settings("read_uncommitted")) for _ in range(PROGRAMS)]
    try:
        await asyncio.gather(*(client.start() for client in [*producers, *consumers]))
        await asyncio.gather(
            *(
                _write_and_read(producer, consumer, TopicPartition(topic, number % PARTITIONS), number)
                for number, (producer, consumer) in enumerate(zip(producers, consumers, strict=True))
            )
        )
        # They connect when they have something to say, and stay.
        assert node is None or not TELLS_OF_PROCESSES or node.open_descriptors() >= 2 * PROGRAMS
    finally:
        await asyncio.gather(*(client.stop() for client in [*producers, *consumers]))


async def _write_and_read(
    producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, place: TopicPartition, number: int
) -> None:
    values = [b"%d-%d" % (number, i) for i in range(3)]
    written = [await producer.send_and_wait(place.topic, value, partition=place.partition) for value in values]
    consumer.assign([place])
    consumer.seek(place, written[0].offset)
    found: list[tuple[int, bytes]] = []
    while len(found) < len(values):
        record = await asyncio.wait_for(consumer.getone(), 60)
        if record.value in values:
            found.append((record.offset, record.value))
    assert found == [(metadata.offset, value) for metadata, value in zip(written, values, strict=True)]


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
