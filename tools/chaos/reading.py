"""Everything that is in a topic, as a reader of committed records finds it."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from chaos.checks import Log
from cordwood import Consumer, TopicPartition

Reader = Callable[[str, str, int], dict[int, Log]]
_POLL_MS = 200


def read_with_librdkafka(bootstrap: str, topic: str, partitions: int) -> dict[int, Log]:
    consumer = LibrdkafkaConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found: dict[int, list[tuple[int, str]]] = {partition: [] for partition in range(partitions)}
    consumer.assign([LibrdkafkaPartition(topic, partition, 0) for partition in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(1_000, _POLL_MS / 1000):
            error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
            assert partition is not None
            if error is None:
                assert isinstance(value, bytes)
                assert offset is not None
                found[partition].append((offset, value.decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
            elif not error.retriable():
                raise KafkaException(error)
    consumer.close()
    return dict(found)


def read_with_cordwood(bootstrap: str, topic: str, partitions: int) -> dict[int, Log]:
    found: dict[int, list[tuple[int, str]]] = {partition: [] for partition in range(partitions)}
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "enable.auto.commit": False}
    with Consumer(settings) as consumer:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for place, records in consumer.poll(timeout_ms=_POLL_MS).items():
                for record in records:
                    assert isinstance(record.value, bytes)
                    found[place.partition].append((record.offset, record.value.decode()))
    return dict(found)
