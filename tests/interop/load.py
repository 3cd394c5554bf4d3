"""Load on a cluster whose nodes come and go, with librdkafka and with Cordwood's own client."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import cordwood
from cordwood.wire.record import ConsumerRecord

_POLL_S = 0.05
_FLUSH_S = 120.0
_TRANSACTION_S = 60.0


class Load(ABC):
    """A thread that works until `stop`. An error that its clients can't hide from it begins a new session, with new
    clients."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.errors: list[str] = []
        self.longest_pause_s = 0.0
        self._bootstrap = bootstrap
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._progressed_at: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._session()
                except (KafkaException, cordwood.ClientError) as error:
                    self.errors.append(str(error))
        except BaseException as failure:  # noqa: BLE001
            # Raised by `stop`.
            self._failure = failure

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of acknowledged records, or transactions."""

    @abstractmethod
    def _session(self) -> None: ...

    def _settings(self, **more: Any) -> dict[str, Any]:
        settings = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self._bootstrap, "log_level": 0, **settings}

    def _progressed(self) -> None:
        """Something was acknowledged: how long the cluster kept the load waiting."""
        now = time.monotonic()
        if self._progressed_at is not None:
            self.longest_pause_s = max(self.longest_pause_s, now - self._progressed_at)
        self._progressed_at = now


class IdempotentLoad(Load):
    """Numbered records to all partitions of a topic, with acks=all. `acked` has the numbers that were acknowledged, by
    partition, in order."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int = 300) -> None:
        super().__init__(f"idempotent to {topic}", bootstrap)
        self.acked: dict[int, list[int]] = defaultdict(list)
        self._topic = topic
        self._partitions = partitions
        self._pause_s = partitions / per_second

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.acked.values())

    def _session(self) -> None:
        # With more in flight librdkafka 2.16 may send a later batch first when a leader moves, also between two Kafka
        # nodes; after OUT_OF_ORDER_SEQUENCE_NUMBER it begins a new epoch, in which it repeats what is written already.
        settings = self._settings(enable_idempotence=True, linger_ms=2, max_in_flight_requests_per_connection=1)
        producer = Producer(settings)
        number = 0
        while not self._stopping.is_set():
            for partition in range(self._partitions):
                value = f"{partition}:{number}".encode()
                producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            producer.poll(0)
            self._stopping.wait(self._pause_s)
        assert producer.flush(_FLUSH_S) == 0, "records are not acknowledged"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self._progressed()
        partition, _, number = _value(message).partition(":")
        self.acked[int(partition)].append(int(number))


class TransactionalLoad(Load):
    """Transactions with a numbered record for each partition of a topic; every third one is aborted. `committed` has
    the numbers of those that are known to be, in order, and `unknown` those whose commit ended with an error."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(f"transactions to {topic}", bootstrap)
        self.committed: list[int] = []
        self.unknown: set[int] = set()
        self._topic = topic
        self._partitions = partitions
        self._number = 0

    @property
    def count(self) -> int:
        return len(self.committed)

    def _session(self) -> None:
        producer = Producer(self._settings(transactional_id=f"{self._topic}-load", transaction_timeout_ms=30_000))
        _retried(producer.init_transactions)
        while not self._stopping.is_set():
            number = self._number
            self._number += 1
            producer.begin_transaction()
            for partition in range(self._partitions):
                producer.produce(self._topic, str(number).encode(), partition=partition)
            if number % 3 == 2:
                producer.flush(_TRANSACTION_S)
                _retried(producer.abort_transaction)
                continue
            self.unknown.add(number)
            _retried(producer.commit_transaction)
            self._progressed()
            self.unknown.remove(number)
            self.committed.append(number)
            self._stopping.wait(_POLL_S)


class ExactlyOnceCopy(Load):
    """Copies a topic to another one with Cordwood's client, each batch with its offsets in a transaction. `protocol` is
    that of its group, classic or consumer.

    Not with librdkafka: where the group's coordinator is killed between AddOffsetsToTxn and TxnOffsetCommit, and it
    takes the cluster seconds to notice, librdkafka 2.16 sends no more requests and waits in
    send_offsets_to_transaction, whatever the timeout.
    """

    def __init__(self, bootstrap: str, source: str, target: str, protocol: str) -> None:
        super().__init__(f"copy to {target}", bootstrap)
        self.group = f"{target}-copier"
        self._copied = 0
        self._source = source
        self._target = target
        self._protocol = protocol

    @property
    def count(self) -> int:
        return self._copied

    def _session(self) -> None:
        producer = cordwood.Producer(
            bootstrap_servers=self._bootstrap,
            transactional_id=self.group,
            transaction_timeout_ms=30_000,
            max_block_ms=int(_TRANSACTION_S * 1000),
        )
        consumer = cordwood.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.group,
                "group.protocol": self._protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            producer.init_transactions()
            consumer.subscribe([self._source])
            while not self._stopping.is_set():
                polled = consumer.poll(timeout_ms=50)
                records = [record for records in polled.values() for record in records]
                if records:
                    self._copy(consumer, producer, records)
        finally:
            consumer.close()
            producer.close()

    def _copy(self, consumer: cordwood.Consumer, producer: cordwood.Producer, records: list[ConsumerRecord]) -> None:
        producer.begin_transaction()
        for record in records:
            producer.send(self._target, record.value, partition=record.partition)
        ends = {
            cordwood.TopicPartition(record.topic, record.partition): cordwood.OffsetAndMetadata(record.offset + 1)
            for record in records
        }
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        producer.commit_transaction()
        self._progressed()
        self._copied += len(records)


def _retried(call: Callable[[float], Any]) -> None:
    """Calls until it succeeds or fails for good, as librdkafka's documentation asks for."""
    deadline = time.monotonic() + _TRANSACTION_S
    while True:
        try:
            call(_TRANSACTION_S)
        except KafkaException as failed:
            if failed.args[0].retriable() and time.monotonic() < deadline:
                continue
            raise
        return


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
