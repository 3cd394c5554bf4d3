"""Background work of a node: retention, compaction, closing idle connections."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import Address, Client, Record, Sending, eventually, read, read_all, refusal_of
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient, connection_settings, consumer_settings
from tests.foreign_clients.node_process import TELLS_OF_PROCESSES, Nodes

StartNode = Callable[..., Nodes]
LONG_AGO_MS = 1_600_000_000_000
OFTEN = {"log.retention.check.interval.ms": "50", "log.initial.task.delay.ms": "50"}


def test_records_go_when_their_time_has_passed(own_node: StartNode) -> None:
    node = own_node(OFTEN)
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.create_topic("fleeting", configs={"retention.ms": "3600000", "file.delete.delay.ms": "0"})
    client.produce("fleeting", [Record(b"old", timestamp_ms=LONG_AGO_MS)] * 10)
    # All of the last segment is old: it is rolled and goes too.
    eventually(lambda: client.watermarks("fleeting"), lambda ends: ends == (10, 10))
    assert client.produce("fleeting", [Record(b"new")]) == [10]
    assert [record.value for record in read(client, "fleeting", 1, start=10)] == [b"new"]


def test_records_go_when_there_are_too_many(own_node: StartNode) -> None:
    node = own_node(OFTEN)
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.create_topic("bounded", configs={"retention.bytes": "2000000", "segment.bytes": "1048576"})
    for _ in range(10):
        client.produce("bounded", [Record(b"x" * 1000)] * 500, how=Sending(batch_bytes=100_000))
    # A reader that begins at the log start may find that it has just continued: then it is asked again.
    offsets = eventually(
        lambda: [record.offset for record in read_all(client, "bounded")], lambda offsets: offsets[0] > 1000
    )
    assert offsets == list(range(offsets[0], 5000))


def test_a_compacted_topic_keeps_the_last_of_each_key(own_node: StartNode) -> None:
    node = own_node({"log.cleaner.backoff.ms": "50"})
    client = LibrdkafkaClient(Address(node.bootstrap))
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    client.create_topic("latest", configs=configs)
    for generation in range(5):
        records = [Record(b"%d" % generation, key=b"key-%d" % i, timestamp_ms=LONG_AGO_MS) for i in range(20)]
        client.produce("latest", records)
    # The active segment is not compacted; a much later record has it rolled.
    client.produce("latest", [Record(b"last", key=b"last", timestamp_ms=LONG_AGO_MS + 3_600_000)])

    expected = [(80 + i, b"key-%d" % i, b"4") for i in range(20)] + [(100, b"last", b"last")]
    eventually(
        lambda: [(record.offset, record.key, record.value) for record in read_all(client, "latest")],
        lambda records: records == expected,
    )


@pytest.mark.skipif(not TELLS_OF_PROCESSES, reason="this system does not tell of a process's descriptors")
def test_an_idle_connection_is_closed_and_its_client_continues(own_node: StartNode) -> None:
    node = own_node({"connections.max.idle.ms": "500"})
    address = Address(node.bootstrap)
    LibrdkafkaClient(address).create_topic("idle")
    producer = Producer(connection_settings(address))
    producer.produce("idle", b"before")
    assert producer.flush(30) == 0
    connected = node.open_descriptors()
    eventually(node.open_descriptors, lambda descriptors: descriptors < connected)
    producer.produce("idle", b"after")
    assert producer.flush(30) == 0
    assert [record.value for record in read_all(LibrdkafkaClient(address), "idle")] == [b"before", b"after"]


def test_topics_are_created_with_num_partitions(own_node: StartNode) -> None:
    node = own_node({"num.partitions": "3"})
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.produce("made", [Record(b"x")], partition=2)
    assert sorted(client.leaders("made")) == [0, 1, 2]


def test_topics_are_not_created_where_that_is_switched_off(own_node: StartNode) -> None:
    node = own_node({"auto.create.topics.enable": "false"})
    address = Address(node.bootstrap)
    errors: list[int] = []
    # It would wait half a minute for the topic.
    producer = Producer(connection_settings(address) | {"topic.metadata.propagation.max.ms": 200})
    producer.produce("unmade", b"x", on_delivery=lambda error, _message: errors.append(error.code() if error else 0))
    assert producer.flush(30) == 0
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "unmade" not in LibrdkafkaClient(address).topic_names()


def test_a_stop_does_not_wait_for_a_reader_that_waits(own_node: StartNode) -> None:
    node = own_node()
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.produce("quiet", [Record(b"x")])
    reader = Consumer(
        connection_settings(Address(node.bootstrap))
        | consumer_settings("read_uncommitted")
        # Longer than the test waits for the node to end.
        | {"fetch.wait.max.ms": 100_000, "fetch.min.bytes": 1_000_000}
    )
    reader.assign([TopicPartition("quiet", 0, 0)])
    assert reader.poll(0.5) is None
    assert node.stop() == 0
    reader.close()


# aiokafka does not know the error.
@pytest.mark.parametrize("admin", ["librdkafka", "kafka-python", "cordwood"], indirect=True)
def test_a_record_without_a_key_is_refused_by_a_compacted_topic(
    admin: Client, librdkafka: LibrdkafkaClient, topic: str
) -> None:
    librdkafka.create_topic(topic, configs={"cleanup.policy": "compact"})
    assert refusal_of(lambda: admin.produce(topic, [Record(b"no key")])) == ErrorCode.INVALID_RECORD
    admin.produce(topic, [Record(b"value", key=b"key")])
    assert [record.value for record in read(admin, topic, 1)] == [b"value"]
