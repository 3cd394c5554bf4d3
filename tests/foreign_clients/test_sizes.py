"""Record size limits: `max.message.bytes`, by default 1 MiB and the batch's overhead."""

import random

import pytest

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import (
    Client,
    ConfigChange,
    Record,
    Refused,
    Resource,
    Sending,
    eventually,
    read,
    refusal_of,
)
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

MIB = 1 << 20
# Not to be made smaller by a codec.
NOISE = random.Random(5).randbytes(3 * MIB // 2).hex().encode()


def test_a_record_of_more_than_a_mebibyte_is_refused_by_default(admin: Client, topic: str) -> None:
    admin.produce(topic, [Record(b"small")])
    with pytest.raises(Refused) as refused:
        admin.produce(topic, [Record(NOISE[: MIB + 1])])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert admin.watermarks(topic) == (0, 1)


def test_a_record_just_below_the_limit_is_taken(client: Client, topic: str) -> None:
    client.produce(topic, [Record(NOISE[: MIB - 200])])
    assert [record.value for record in read(client, topic, 1)] == [NOISE[: MIB - 200]]


def test_the_limit_is_of_the_compressed_batch(client: Client, topic: str) -> None:
    client.produce(topic, [Record(b"z" * (3 * MIB))], how=Sending(compression="zstd"))
    assert [record.value for record in read(client, topic, 1)] == [b"z" * (3 * MIB)]


def test_a_topic_may_allow_larger_records(client: Client, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic, configs={"max.message.bytes": str(8 * MIB)})
    client.produce(topic, [Record(NOISE), Record(NOISE[::-1])])
    assert [record.value for record in read(client, topic, 2)] == [NOISE, NOISE[::-1]]


def test_a_limit_that_is_changed_holds_from_then_on(admin: Client, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic)
    resource = Resource("topic", topic)

    librdkafka.change_configs(resource, [ConfigChange("set", "max.message.bytes", "1000")])
    eventually(
        lambda: refusal_of(lambda: admin.produce(topic, [Record(NOISE[:2000])])),
        lambda code: code == ErrorCode.MESSAGE_TOO_LARGE,
    )

    librdkafka.change_configs(resource, [ConfigChange("delete", "max.message.bytes")])
    eventually(lambda: admin.produce(topic, [Record(NOISE[:3000])]))
    low, high = admin.watermarks(topic)
    assert read(admin, topic, high - low, start=low)[-1].value == NOISE[:3000]
