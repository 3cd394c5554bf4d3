"""Transactions of real producers: what readers see of them, and when."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.foreign_clients.group_admin import LibrdkafkaGroups
from tests.foreign_clients.group_fixtures import SETTINGS
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, Client, Reading, Record, eventually, read
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient, connection_settings
from tests.foreign_clients.member_journal import Place
from tests.foreign_clients.node_process import Nodes
from tests.foreign_clients.transactional_producer import (
    PRODUCERS,
    Fenced,
    LibrdkafkaTransactions,
    TransactionalProducer,
)

READERS = ("librdkafka", "kafka-python", "aiokafka", "cordwood")

Connect = Callable[[str, Address], Client]
Open = Callable[..., TransactionalProducer]


@pytest.fixture(params=PRODUCERS)
def open_producer(request: pytest.FixtureRequest, groups_address: Address) -> Iterator[Open]:
    """For each library in turn."""
    opened: list[TransactionalProducer] = []

    def open_one(transactional_id: str, timeout_ms: int = 60_000) -> TransactionalProducer:
        producer = PRODUCERS[request.param](groups_address, transactional_id, timeout_ms)
        opened.append(producer)
        return producer

    yield open_one
    for producer in opened:
        producer.close()


@pytest.fixture
def places(groups_admin: LibrdkafkaClient, topic: str) -> list[Place]:
    groups_admin.create_topic(topic, 3)
    return [Place(topic, partition) for partition in range(3)]


def committed(connect: Connect, address: Address, place: Place, count: int) -> list[bytes | None]:
    """The first N committed records as seen by each reader; they agree."""
    seen = [
        [
            record.value
            for record in read(
                connect(name, address), place.topic, count, partition=place.partition, isolation="read_committed"
            )
        ]
        for name in READERS
    ]
    assert seen == [seen[0]] * len(READERS)
    return seen[0]


def test_committed_records_are_read_and_aborted_ones_are_not(
    open_producer: Open, places: list[Place], connect: Connect, groups_address: Address
) -> None:
    producer = open_producer(places[0].topic)
    for number, end in enumerate([producer.commit, producer.abort, producer.commit, producer.abort, producer.commit]):
        producer.begin()
        for place in places:
            producer.send(place, b"%d" % number)
        end()
    for place in places:
        assert committed(connect, groups_address, place, 3) == [b"0", b"2", b"4"]


def test_nothing_beyond_an_open_transaction_is_read(
    open_producer: Open, places: list[Place], groups_admin: LibrdkafkaClient
) -> None:
    """And all of it at once when the transaction is committed."""
    place = places[0]
    groups_admin.produce(place.topic, [Record(b"before")])
    producer = open_producer(place.topic)
    producer.begin()
    producer.send(place, b"within")
    groups_admin.produce(place.topic, [Record(b"beyond")])
    with Reading(groups_admin.reader(place.topic, start=0, isolation="read_committed")) as reading:
        assert [record.value for record in reading.take(1)] == [b"before"]
        # A read_uncommitted consumer sees everything, so it was available.
        assert [r.value for r in read(groups_admin, place.topic, 3)] == [b"before", b"within", b"beyond"]
        assert reading.reader.poll(0.5) == []
        producer.commit()
        assert [record.value for record in reading.take(2)] == [b"within", b"beyond"]


def test_a_zombie_is_fenced_and_leaves_nothing_behind(
    open_producer: Open, places: list[Place], connect: Connect, groups_address: Address
) -> None:
    zombie = open_producer(places[0].topic)
    zombie.begin()
    for place in places:
        zombie.send(place, b"of the zombie")
    successor = open_producer(places[0].topic)
    with pytest.raises(Fenced):
        zombie.commit()
    successor.begin()
    for place in places:
        successor.send(place, b"of the successor")
    successor.commit()
    for place in places:
        assert committed(connect, groups_address, place, 1) == [b"of the successor"]


def test_a_transaction_that_takes_too_long_is_aborted(
    open_producer: Open, places: list[Place], groups_admin: LibrdkafkaClient, connect: Connect, groups_address: Address
) -> None:
    place = places[0]
    producer = open_producer(place.topic, timeout_ms=1000)
    producer.begin()
    producer.send(place, b"forgotten")
    groups_admin.produce(place.topic, [Record(b"beyond")])
    assert committed(connect, groups_address, place, 1) == [b"beyond"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    open_producer: Open, places: list[Place], groups_address: Address
) -> None:
    group = f"g-{places[0].topic}"
    viewer = LibrdkafkaGroups(groups_address)
    producer = open_producer(places[0].topic)
    producer.begin()
    producer.send(places[0], b"x")
    producer.send_offsets(group, {places[0]: 7, places[1]: 9})
    assert viewer.offsets(group) == {}
    producer.commit()
    expected = {places[0]: (7, ""), places[1]: (9, "")}
    eventually(lambda: viewer.offsets(group), lambda offsets: offsets == expected)
    producer.begin()
    producer.send(places[0], b"x")
    producer.send_offsets(group, {places[0]: 70, places[2]: 90})
    producer.abort()
    assert viewer.offsets(group) == expected
    producer.begin()
    producer.send(places[0], b"x")
    producer.send_offsets(group, {places[2]: 2})
    producer.commit()
    expected[places[2]] = (2, "")
    eventually(lambda: viewer.offsets(group), lambda offsets: offsets == expected)


def test_a_member_that_has_lost_its_partitions_cannot_commit_in_a_transaction(
    groups_address: Address, groups_admin: LibrdkafkaClient, topic: str
) -> None:
    """KIP-447: its transactional id is its own, it is the group that fences it."""
    groups_admin.create_topic(topic, 1)
    groups_admin.produce(topic, [Record(b"x")])
    settings = connection_settings(groups_address) | {
        "group.id": f"g-{topic}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 50,
    }
    zombie, successor = Consumer(settings), Consumer(settings)
    zombie.subscribe([topic])
    eventually(lambda: zombie.poll(0.1))
    membership = zombie.consumer_group_metadata()
    zombie.close()
    successor.subscribe([topic])
    eventually(lambda: successor.poll(0.1))
    producer = Producer(connection_settings(groups_address) | {"transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], membership, PATIENCE_S)
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
    successor.close()


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_outlives_a_node_that_is_killed(
    own_node: Callable[..., Nodes], end: str, topic: str, connect: Connect
) -> None:
    node = own_node(SETTINGS)
    address = Address(node.bootstrap)
    admin = LibrdkafkaClient(address)
    admin.create_topic(topic, 2)
    producer = LibrdkafkaTransactions(address, topic)
    producer.begin()
    producer.send(Place(topic, 0), b"before")
    node.kill()
    node.start()
    producer.send(Place(topic, 1), b"after")
    producer.commit() if end == "commit" else producer.abort()
    for partition, value in enumerate([b"before", b"after"]):
        admin.produce(topic, [Record(b"beyond")], partition=partition)
        expected = [value, b"beyond"] if end == "commit" else [b"beyond"]
        assert committed(connect, address, Place(topic, partition), len(expected)) == expected
