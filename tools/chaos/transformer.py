"""A process that consumes, transforms and produces in transactions, with librdkafka or with our client.

It reports its actions on stdout, a line each, and ends when its stdin does. A step that does not return within its
limit ends the process: librdkafka's `send_offsets_to_transaction` does not heed its timeout and may wait forever after
the coordinator of the group has died (confluentinc/librdkafka#5456 and #5511).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Protocol, TypeVar, cast

from chaos.checks import ABORTED

T = TypeVar("T")

STALLED = 75
_BATCH = 50
_POLL_S = 0.05
# The share of transactions aborted on purpose, to check that they leave nothing behind.
_ABORTED_SHARE = 0.1
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TransformerSpec:
    library: str
    bootstrap: str
    group: str
    transactional_id: str
    source: str
    sink: str
    seed: int
    stall_s: float

    def as_text(self) -> str:
        return json.dumps(asdict(self))


# Partition, offset, value.
Record = tuple[int, int, bytes]


class Library(Protocol):
    def read(self) -> list[Record]: ...

    def begin(self) -> None: ...

    def write(self, partition: int, value: bytes) -> None: ...

    def send_offsets(self, ends: dict[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def rewind(self, records: Sequence[Record]) -> None: ...

    def must_abort(self, error: Exception) -> bool:
        """False where the producer cannot continue."""
        ...


def main() -> None:
    spec = TransformerSpec(**json.loads(sys.argv[1]))
    watch = Watch(spec.stall_s)
    orders = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(orders,), daemon=True).start()
    random = Random(spec.seed)
    library = watch.step("start", lambda: _library(spec))
    while not orders.is_set():
        records = watch.step("read", library.read)
        if records:
            _transform(library, records, watch, random)
    _say("ended")
    # The successor with its transactional id aborts an open transaction.
    sys.stdout.flush()
    os._exit(0)


def _await_end_of_input(has_ended: threading.Event) -> None:
    sys.stdin.read()
    has_ended.set()


def _transform(library: Library, records: list[Record], watch: Watch, random: Random) -> None:
    is_aborted = random.random() < _ABORTED_SHARE
    try:
        library.begin()
        for partition, _, value in records:
            library.write(partition, ABORTED.encode() + value if is_aborted else value)
        watch.step("send_offsets", lambda: library.send_offsets({part: at + 1 for part, at, _ in records}))
        if is_aborted:
            watch.step("abort", library.abort)
            library.rewind(records)
        else:
            watch.step("commit", library.commit)
            _say("committed " + ",".join(str(partition) for partition in {part for part, _, _ in records}))
    except Exception as error:
        _say(f"refused {error!r}".replace("\n", " "))
        if not library.must_abort(error):
            raise
        watch.step("abort", library.abort)
        library.rewind(records)


class Watch:
    """Ends the process when a step takes too long."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._step: tuple[str, float] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def step(self, name: str, does: Callable[[], T]) -> T:
        self._step = name, time.monotonic()
        try:
            return does()
        finally:
            self._step = None

    def _run(self) -> None:
        while True:
            time.sleep(self._limit_s / 20)
            step = self._step
            if step is not None and time.monotonic() - step[1] > self._limit_s:
                _say(f"stalled in {step[0]}")
                os._exit(STALLED)


def _say(text: str) -> None:
    print(text, flush=True)


def _library(spec: TransformerSpec) -> Library:
    return _Librdkafka(spec) if spec.library == "librdkafka" else _Cordwood(spec)


class _Librdkafka:
    def __init__(self, spec: TransformerSpec) -> None:
        from confluent_kafka import Consumer, Message, Producer, TopicPartition

        self._spec = spec
        self._batch: list[Message] = []
        connection = {"bootstrap.servers": spec.bootstrap, "log_level": 0}
        self._producer = Producer(
            connection | {"transactional.id": spec.transactional_id, "transaction.timeout.ms": 20_000, "linger.ms": 2}
        )
        self._producer.init_transactions(_TIMEOUT_S)
        self._consumer = Consumer(
            connection
            | {
                "group.id": spec.group,
                "session.timeout.ms": 10_000,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )

        def drop(_consumer: Consumer, revoked: list[TopicPartition]) -> None:
            gone = {partition.partition for partition in revoked}
            self._batch = [message for message in self._batch if message.partition() not in gone]

        self._consumer.subscribe([spec.source], on_revoke=drop, on_lost=drop)

    def read(self) -> list[Record]:
        """Without what the group takes away while it reads."""
        from confluent_kafka import KafkaError, KafkaException

        self._batch = []
        wait_s = _POLL_S
        for _ in range(_BATCH):
            message = self._consumer.poll(wait_s)
            if message is None:
                break
            error = message.error()
            if error is None:
                self._batch.append(message)
                wait_s = 0.0
            elif error.fatal() or error.code() == KafkaError._FATAL:
                raise KafkaException(error)
        return [
            (cast(int, message.partition()), cast(int, message.offset()), cast(bytes, message.value()))
            for message in self._batch
        ]

    def begin(self) -> None:
        self._membership = self._consumer.consumer_group_metadata()
        self._producer.begin_transaction()

    def write(self, partition: int, value: bytes) -> None:
        self._producer.produce(self._spec.sink, value, partition=partition)

    def send_offsets(self, ends: dict[int, int]) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(self._spec.source, partition, end) for partition, end in ends.items()]
        self._producer.send_offsets_to_transaction(offsets, self._membership, _TIMEOUT_S)

    def commit(self) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                return self._producer.commit_transaction(_TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def abort(self) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                return self._producer.abort_transaction(_TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def rewind(self, records: Sequence[Record]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        for partition, offset, _ in reversed(records):
            try:
                self._consumer.seek(TopicPartition(self._spec.source, partition, offset))
            except KafkaException:
                # No longer assigned, or not yet again: whoever has it begins at what is committed.
                continue

    def must_abort(self, error: Exception) -> bool:
        from confluent_kafka import KafkaException

        return isinstance(error, KafkaException) and not error.args[0].fatal()


class _Cordwood:
    def __init__(self, spec: TransformerSpec) -> None:
        from cordwood import Consumer, Producer

        self._spec = spec
        self._producer = Producer(
            bootstrap_servers=spec.bootstrap,
            transactional_id=spec.transactional_id,
            transaction_timeout_ms=20_000,
            linger_ms=2,
        )
        self._producer.init_transactions()
        self._consumer = Consumer(
            {
                "bootstrap.servers": spec.bootstrap,
                "group.id": spec.group,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "max.poll.records": _BATCH,
            }
        )
        self._consumer.subscribe([spec.source])

    def read(self) -> list[Record]:
        polled = self._consumer.poll(timeout_ms=_POLL_S * 1000)
        return [
            (record.partition, record.offset, cast(bytes, record.value))
            for records in polled.values()
            for record in records
        ]

    def begin(self) -> None:
        self._membership = self._consumer.group_metadata()
        self._producer.begin_transaction()

    def write(self, partition: int, value: bytes) -> None:
        self._producer.send(self._spec.sink, value, partition=partition)

    def send_offsets(self, ends: dict[int, int]) -> None:
        from cordwood import OffsetAndMetadata, TopicPartition

        offsets = {TopicPartition(self._spec.source, part): OffsetAndMetadata(end) for part, end in ends.items()}
        self._producer.send_offsets_to_transaction(offsets, self._membership)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def rewind(self, records: Sequence[Record]) -> None:
        from cordwood import ClientError, TopicPartition

        for partition, offset, _ in reversed(records):
            try:
                self._consumer.seek(TopicPartition(self._spec.source, partition), offset)
            except ClientError:
                continue

    def must_abort(self, error: Exception) -> bool:
        from cordwood import TransactionAbortable

        return isinstance(error, TransactionAbortable)


if __name__ == "__main__":
    main()
