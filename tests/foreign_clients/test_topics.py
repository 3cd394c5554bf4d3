"""Topics, from their creation to their end, with each admin client."""

import pytest

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import Admin, Client, Record, eventually, read, refusal_of


def test_a_created_topic_is_listed_and_described(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=3)
    leaders = eventually(lambda: admin.leaders(topic), lambda leaders: len(leaders) == 3)
    assert sorted(leaders) == [0, 1, 2]
    assert min(leaders.values()) >= 0
    assert topic in admin.topic_names()


def test_a_topic_that_exists_is_not_created_again(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    assert refusal_of(lambda: admin.create_topic(topic)) == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 250])
def test_a_name_that_kafka_does_not_allow_is_refused(admin: Admin, name: str) -> None:
    assert refusal_of(lambda: admin.create_topic(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_with_a_bad_config_is_not_created(admin: Admin, topic: str) -> None:
    assert (
        refusal_of(lambda: admin.create_topic(topic, configs={"retention.ms": "a while"})) == ErrorCode.INVALID_CONFIG
    )
    assert topic not in admin.topic_names()


# The others check it themselves, or take 0 for "the default".
@pytest.mark.parametrize("admin", ["aiokafka", "cordwood"], indirect=True)
def test_a_topic_without_partitions_is_refused(admin: Admin, topic: str) -> None:
    assert refusal_of(lambda: admin.create_topic(topic, partitions=0)) == ErrorCode.INVALID_PARTITIONS


def test_partitions_are_added_and_take_records(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=1)
    admin.produce(topic, [Record(b"before")])
    admin.add_partitions(topic, 3)
    eventually(lambda: admin.leaders(topic), lambda leaders: sorted(leaders) == [0, 1, 2])
    # Another broker may not have applied it yet, and librdkafka does not ask again.
    eventually(lambda: admin.produce(topic, [Record(b"after")], partition=2))
    assert read(admin, topic, 1)[0].value == b"before"
    assert read(admin, topic, 1, partition=2)[0].value == b"after"


def test_partitions_are_not_taken_away(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=3)
    eventually(lambda: admin.leaders(topic), lambda leaders: len(leaders) == 3)
    assert refusal_of(lambda: admin.add_partitions(topic, 2)) == ErrorCode.INVALID_PARTITIONS
    assert refusal_of(lambda: admin.add_partitions(topic, 3)) == ErrorCode.INVALID_PARTITIONS


def test_a_deleted_topic_is_gone(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    admin.produce(topic, [Record(b"x")])
    admin.delete_topic(topic)
    eventually(admin.topic_names, lambda names: topic not in names)
    assert refusal_of(lambda: admin.delete_topic(topic)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_recreated_topic_is_empty(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, partitions=2)
    admin.produce(topic, [Record(b"old")] * 5)
    admin.delete_topic(topic)
    eventually(admin.topic_names, lambda names: topic not in names)
    admin.create_topic(topic, partitions=1)
    eventually(lambda: admin.leaders(topic), lambda leaders: sorted(leaders) == [0])
    assert eventually(lambda: admin.watermarks(topic)) == (0, 0)
    admin.produce(topic, [Record(b"new")])
    assert [(record.offset, record.value) for record in read(admin, topic, 1)] == [(0, b"new")]


def test_a_topic_that_is_produced_to_is_created(client: Client, topic: str) -> None:
    client.produce(topic, [Record(b"first")])
    assert [record.value for record in read(client, topic, 1)] == [b"first"]
    assert sorted(client.leaders(topic)) == [0]


def test_records_are_deleted_up_to_an_offset(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    admin.produce(topic, [Record(b"%d" % i) for i in range(20)])
    assert admin.delete_records(topic, 7) == 7
    assert admin.watermarks(topic) == (7, 20)
    assert [record.offset for record in read(admin, topic, 13, start=-2)] == list(range(7, 20))


def test_all_records_are_deleted(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    admin.produce(topic, [Record(b"%d" % i) for i in range(20)])
    assert admin.delete_records(topic, -1) == 20
    assert admin.watermarks(topic) == (20, 20)
    admin.produce(topic, [Record(b"next")])
    assert [(record.offset, record.value) for record in read(admin, topic, 1, start=20)] == [(20, b"next")]


def test_records_past_the_end_cannot_be_deleted(admin: Admin, topic: str) -> None:
    admin.create_topic(topic)
    admin.produce(topic, [Record(b"only")])
    assert refusal_of(lambda: admin.delete_records(topic, 2)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert admin.watermarks(topic) == (0, 1)
