"""Members of groups, by librdkafka, which heartbeats automatically."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from confluent_kafka import Consumer, TopicPartition

from tests.cli.cli_runner import until

Protocol = Literal["classic", "consumer"]


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: Protocol = "classic") -> Iterator[Consumer]:
    """Has been assigned something when it is yielded."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"client-of-{group}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        until(lambda: _is_assigned(consumer))
        yield consumer
    finally:
        consumer.close()


def _is_assigned(consumer: Consumer) -> bool:
    message = consumer.poll(0)
    if message is not None and message.error() is None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        # It was assigned, and has fetched, within this call: the record is for the test.
        consumer.seek(TopicPartition(topic, partition, offset))
    return bool(consumer.assignment())
