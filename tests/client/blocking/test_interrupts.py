"""Control-C while records are in flight to the application's thread: what it has not got is neither skipped nor
committed."""

from collections.abc import Callable
from typing import Any

import pytest

from cordwood import Closed, Consumer, ConsumerRecord, Producer, TopicPartition
from tests.client.any_cluster import AnyCluster

COUNT = 20


@pytest.fixture
def topic(node: AnyCluster) -> str:
    topic = node.topic()
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=0) as producer:
        for number in range(COUNT):
            producer.send(topic, f"{number}", partition=0)
    return topic


class InterruptedOnce:
    """A deserializer that someone presses Control-C in."""

    def __init__(self, at: bytes) -> None:
        self._at: bytes | None = at

    def __call__(self, content: bytes) -> bytes:
        if content == self._at:
            self._at = None
            raise KeyboardInterrupt
        return content


def polled(consumer: Consumer) -> list[ConsumerRecord]:
    return [record for records in consumer.poll(timeout_ms=1000).values() for record in records]


def polled_one_by_one(consumer: Consumer) -> list[ConsumerRecord]:
    """So that most of them are handed over before they are asked for."""
    return [record for records in consumer.poll(timeout_ms=1000, max_records=1).values() for record in records]


def got_many(consumer: Consumer) -> list[ConsumerRecord]:
    return [record for records in consumer.getmany(timeout_ms=1000).values() for record in records]


def got_one(consumer: Consumer) -> list[ConsumerRecord]:
    return [consumer.getone()]


def got_one_of_partition(consumer: Consumer) -> list[ConsumerRecord]:
    return [consumer.getone(*consumer.assignment())]


def iterated(consumer: Consumer) -> list[ConsumerRecord]:
    return [next(iter(consumer))]


def batch(consumer: Consumer) -> list[ConsumerRecord]:
    return next(iter(consumer.batches()))[1]


@pytest.mark.parametrize("read", [polled, polled_one_by_one, got_many, got_one, got_one_of_partition, iterated, batch])
def test_records_interrupted_during_hand_over_are_delivered_again(
    node: AnyCluster, topic: str, read: Callable[[Consumer], list[ConsumerRecord]]
) -> None:
    settings: Any = {"bootstrap_servers": node.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(value_deserializer=InterruptedOnce(b"3"), **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen: list[int] = []
        interrupts = 0
        while len(seen) < COUNT:
            try:
                seen += [record.offset for record in read(consumer)]
            except KeyboardInterrupt:
                interrupts += 1
                assert consumer.position(TopicPartition(topic, 0)) == len(seen)
    assert interrupts == 1
    assert seen == list(range(COUNT))


def test_closing_within_an_iteration_drops_handed_over_records(node: AnyCluster, topic: str) -> None:
    with Consumer(bootstrap_servers=node.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records = iter(consumer)
        assert next(records).offset == 0
        consumer.close()
        with pytest.raises(Closed):
            next(records)
