"""Topics of a node, written and read with the project's own clients."""

from collections.abc import Sequence
from typing import NamedTuple

from cordwood import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.foreign_clients.node_process import NodeProcess


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None


class Consumed(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def topics(node: NodeProcess, base: str, *names: str) -> list[str]:
    """New ones, of a partition each, so that records keep their order."""
    created = [f"{base}-{name}" for name in names]
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=1) for name in created])
        admin.until_topics_led(created)
    return created


def produce(node: NodeProcess, topic: str, records: Sequence[Sent]) -> None:
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        for record in records:
            producer.send(topic, record.value, key=record.key)


def consumed(node: NodeProcess, topic: str) -> list[Consumed]:
    """All that is committed in a topic of one partition."""
    partition = TopicPartition(topic, 0)
    found: list[Consumed] = []
    with Consumer(
        bootstrap_servers=node.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([partition]).values()
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1_000).values():
                found += [Consumed(record.key, record.value, record.headers) for record in records]
    return found
