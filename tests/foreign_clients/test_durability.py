"""Acknowledged records survive any kind of stop."""

from collections.abc import Callable

import pytest

from tests.foreign_clients.clients_fixtures import one_node
from tests.foreign_clients.kafka_client import (
    Address,
    Client,
    ConfigValue,
    Record,
    Resource,
    Sending,
    Stored,
    read,
    read_all,
)
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_process import NodeProcess, Nodes, kill, stop
from tests.foreign_clients.workload import SteadyProducer

CLIENTS = ("librdkafka", "kafka-python", "aiokafka", "kcat", "cordwood")

START_MS = 1_600_000_000_000

StartNode = Callable[..., Nodes]
StartOneNode = Callable[..., NodeProcess]
Connect = Callable[[str, Address], Client]
Ending = Callable[[Nodes], object]


ENDINGS = pytest.mark.parametrize("end", [stop, kill])


@ENDINGS
def test_records_are_read_by_every_client_after_a_restart(own_node: StartNode, connect: Connect, end: Ending) -> None:
    node = own_node()
    writer = LibrdkafkaClient(Address(node.bootstrap))
    writer.create_topic("kept", partitions=2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [Record(b"%s-%d" % (codec.encode(), i), key=b"k", headers=(("h", b"v"),)) for i in range(50)]
        writer.produce("kept", records, partition=1, how=Sending(compression=codec))
    before = read_all(writer, "kept", partition=1)

    end(node)
    node.start()

    def without_type(records: list[Stored]) -> list[tuple[object, ...]]:
        return [(r.offset, r.key, r.value, r.headers, r.timestamp_ms) for r in records]

    for name in CLIENTS:
        client = connect(name, Address(node.bootstrap))
        assert without_type(read_all(client, "kept", partition=1)) == without_type(before), name
    assert writer.produce("kept", [Record(b"next")], partition=1) == [250]


@ENDINGS
def test_topics_and_their_configurations_are_kept(own_node: StartNode, end: Ending) -> None:
    node = own_node()
    admin = LibrdkafkaClient(Address(node.bootstrap))
    admin.create_topic("kept", partitions=3, configs={"retention.ms": "5000000"})
    admin.create_topic("deleted")
    admin.produce("deleted", [Record(b"x")])
    admin.delete_topic("deleted")

    end(node)
    node.start()

    assert "deleted" not in admin.topic_names()
    assert sorted(admin.leaders("kept")) == [0, 1, 2]
    assert admin.configs(Resource("topic", "kept"))["retention.ms"] == ConfigValue("5000000", 1)


@ENDINGS
def test_deleted_records_stay_deleted(own_node: StartNode, end: Ending) -> None:
    node = own_node()
    admin = LibrdkafkaClient(Address(node.bootstrap))
    admin.create_topic("cut")
    admin.produce("cut", [Record(b"%d" % i) for i in range(30)])
    assert admin.delete_records("cut", 20) == 20

    end(node)
    node.start()

    low, high = admin.watermarks("cut")
    assert high == 30
    # As with Kafka: the new log start is in a checkpoint that is written now and then, and at a clean stop.
    assert low == 20 or end is kill
    assert [record.value for record in read_all(admin, "cut")] == [b"%d" % i for i in range(low, 30)]


@ENDINGS
def test_an_idempotent_producer_continues_its_sequence(own_node: StartNode, end: Ending) -> None:
    """Its node is ended three times while it sends. Every record is there once and in order."""
    node = own_node()
    address = Address(node.bootstrap)
    client = LibrdkafkaClient(address)
    client.create_topic("steady")
    with SteadyProducer(address, "steady") as producer:
        for _ in range(3):
            producer.await_acknowledged(1000)
            end(node)
            node.start()
        producer.await_acknowledged(1000)
        sent = producer.stop()
    assert producer.failures == []
    assert [record.value for record in read_all(client, "steady")] == [b"%d" % i for i in range(sent)]
    assert producer.acknowledged == {offset: offset for offset in range(sent)}


@ENDINGS
def test_acknowledged_records_survive_a_kill(own_node: StartNode, end: Ending) -> None:
    node = own_node()
    address = Address(node.bootstrap)
    client = LibrdkafkaClient(address)
    client.create_topic("steady")
    with SteadyProducer(address, "steady") as producer:
        producer.await_acknowledged(3000)
        end(node)
        acknowledged = dict(producer.acknowledged)
        node.start()
        stored = {record.offset: record.value for record in read_all(client, "steady")}
    assert {offset: stored.get(offset) for offset in acknowledged} == {
        offset: b"%d" % number for offset, number in acknowledged.items()
    }


@one_node
def test_a_node_that_was_stopped_comes_back_without_recovering(own_node: StartOneNode) -> None:
    node = own_node()
    LibrdkafkaClient(Address(node.bootstrap)).produce("kept", [Record(b"x")])
    assert node.stop() == 0
    assert (node.data / ".kafka_cleanshutdown").exists()
    node.start()
    assert not (node.data / ".kafka_cleanshutdown").exists()


@one_node
@ENDINGS
def test_a_log_of_many_segments_is_read_across_them(own_node: StartOneNode, end: Ending) -> None:
    """By offset and by time, before and after."""
    node = own_node()
    client = LibrdkafkaClient(Address(node.bootstrap))
    client.create_topic("long", configs={"segment.bytes": "1048576"})
    sent = [b"%05d" % i + b"." * 3000 for i in range(2000)]
    records = [Record(value, timestamp_ms=START_MS + i) for i, value in enumerate(sent)]
    client.produce("long", records, how=Sending(batch_bytes=50_000))
    assert len(list(node.data.glob("long-0/*.log"))) > 4

    for _ in range(2):
        assert [record.value for record in read_all(client, "long")] == sent
        for offset in (0, 351, 1000, 1999):
            assert client.offset_for_time("long", START_MS + offset) == offset
            assert read(client, "long", 1, start=offset)[0].value == sent[offset]
        end(node)
        node.start()
