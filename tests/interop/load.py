"""Load with librdkafka on a cluster whose nodes come and go, and the check that nothing was lost, duplicated or
reordered."""

from __future__ import annotations

import threading
from collections import defaultdict
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_POLL_S = 0.05
_FLUSH_S = 90.0


class IdempotentLoad:
    """Numbered records to all partitions of a topic, with acks=all, until `stop`. `acked` has the numbers that were
    acknowledged, by partition, in order."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int = 1_000) -> None:
        self.acked: dict[int, list[int]] = defaultdict(list)
        self.failures: list[KafkaError] = []
        self._topic = topic
        self._partitions = partitions
        self._pause_s = partitions / per_second
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> IdempotentLoad:
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.acked.values())

    def has(self, count: int) -> bool:
        """Returns whether that many records were acknowledged."""
        return self.count >= count

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for partition in range(self._partitions):
                value = f"{partition}:{number}".encode()
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            self._stopping.wait(self._pause_s)
        self._producer.flush(_FLUSH_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        partition, _, number = _value(message).partition(":")
        self.acked[int(partition)].append(int(number))


def read_all(bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed") -> dict[int, list[str]]:
    """The values of each partition in the order of their offsets, from the start to the end as of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        error = message.error()
        partition = message.partition()
        assert partition is not None
        if error is None:
            found[partition].append(_value(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(partition)
        elif not error.retriable():
            raise KafkaException(error)
    consumer.close()
    return found


def _value(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()
