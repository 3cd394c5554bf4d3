"""Consumers that fetch in sessions (KIP-227): the node keeps their partitions, and gets only the changes."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

import cordwood
from tests.foreign_clients.cordwood_client import connection_settings, consumer_settings
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, Record, eventually
from tests.foreign_clients.kafka_python_client import KafkaPythonPartition, consumer_client
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

PARTITIONS = 12


@pytest.fixture
def wide(librdkafka: LibrdkafkaClient, topic: str) -> str:
    librdkafka.create_topic(topic, PARTITIONS)
    eventually(lambda: librdkafka.leaders(topic), lambda leaders: len(leaders) == PARTITIONS)
    return topic


def cordwood_consumer(address: Address) -> cordwood.Consumer:
    # A topic that is deleted is not to be recreated by asking for it.
    settings = consumer_settings("read_uncommitted") | {"allow.auto.create.topics": False}
    return cordwood.Consumer(settings, **connection_settings(address))


CONSUMERS: dict[str, Callable[[Address], Any]] = {"kafka-python": consumer_client, "cordwood": cordwood_consumer}


@pytest.fixture(params=CONSUMERS)
def consumer(request: pytest.FixtureRequest, address: Address) -> Iterator[Any]:
    consumer = CONSUMERS[request.param](address)
    yield consumer
    consumer.close()


def assign(consumer: Any, topic: str, offsets: dict[int, int]) -> None:
    places = {KafkaPythonPartition(topic, partition): offset for partition, offset in offsets.items()}
    consumer.assign(list(places))
    for place, offset in places.items():
        consumer.seek(place, offset)


def take(consumer: Any, count: int) -> dict[int, list[bytes]]:
    """By partition."""
    taken: dict[int, list[bytes]] = defaultdict(list)
    deadline = monotonic() + PATIENCE_S
    while sum(map(len, taken.values())) < count:
        assert monotonic() < deadline, f"only {taken} came"
        for place, records in consumer.poll(timeout_ms=500).items():
            taken[place.partition] += [record.value for record in records]
    return dict(taken)


def test_a_session_returns_new_records_of_any_of_its_partitions(
    consumer: Any, librdkafka: LibrdkafkaClient, wide: str
) -> None:
    assign(consumer, wide, dict.fromkeys(range(PARTITIONS), 0))
    for round_number in range(3):
        for partition in (round_number, 5, PARTITIONS - 1):
            librdkafka.produce(wide, [Record(b"%d" % round_number)], partition=partition)
        assert take(consumer, 3) == {
            partition: [b"%d" % round_number] for partition in (round_number, 5, PARTITIONS - 1)
        }


def test_a_session_follows_the_assignment(consumer: Any, librdkafka: LibrdkafkaClient, wide: str) -> None:
    for partition in range(PARTITIONS):
        librdkafka.produce(wide, [Record(b"first")], partition=partition)
    assign(consumer, wide, dict.fromkeys(range(6), 0))
    assert take(consumer, 6) == {key: [b"first"] for key in range(6)}
    assign(consumer, wide, {0: 1} | dict.fromkeys(range(8, PARTITIONS), 0))
    assert take(consumer, 4) == {key: [b"first"] for key in range(8, PARTITIONS)}
    for partition in range(PARTITIONS):
        librdkafka.produce(wide, [Record(b"second")], partition=partition)
    assert take(consumer, 5) == {key: [b"second"] for key in [0, *range(8, PARTITIONS)]}


def test_a_session_respects_a_seek_backwards(consumer: Any, librdkafka: LibrdkafkaClient, wide: str) -> None:
    librdkafka.produce(wide, [Record(b"%d" % i) for i in range(5)], partition=3)
    assign(consumer, wide, dict.fromkeys(range(PARTITIONS), 0))
    assert take(consumer, 5) == {3: [b"0", b"1", b"2", b"3", b"4"]}
    consumer.seek(KafkaPythonPartition(wide, 3), 2)
    assert take(consumer, 3) == {3: [b"2", b"3", b"4"]}


def test_a_paused_partition_is_read_when_it_is_resumed(consumer: Any, librdkafka: LibrdkafkaClient, wide: str) -> None:
    assign(consumer, wide, {0: 0, 1: 0})
    consumer.pause(KafkaPythonPartition(wide, 0))
    for partition in (0, 1):
        librdkafka.produce(wide, [Record(b"x")], partition=partition)
    assert take(consumer, 1) == {1: [b"x"]}
    consumer.resume(KafkaPythonPartition(wide, 0))
    assert take(consumer, 1) == {0: [b"x"]}


def test_a_session_outlives_the_topic_that_is_deleted_from_it(
    consumer: Any, librdkafka: LibrdkafkaClient, wide: str, topic: str
) -> None:
    other = f"{topic}-other"
    librdkafka.create_topic(other)
    eventually(lambda: librdkafka.leaders(other))
    places = [KafkaPythonPartition(wide, 0), KafkaPythonPartition(other, 0)]
    consumer.assign(places)
    for place in places:
        consumer.seek(place, 0)
    librdkafka.produce(other, [Record(b"x")])
    assert take(consumer, 1) == {0: [b"x"]}
    librdkafka.delete_topic(other)
    librdkafka.produce(wide, [Record(b"y")])
    assert take(consumer, 1) == {0: [b"y"]}
