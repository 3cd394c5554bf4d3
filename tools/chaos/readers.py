"""Members of consumer groups, with librdkafka and with our client, and their records."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import cast

from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from chaos.checks import Kind, Violation
from cordwood import Admin, ClientError, Consumer, TopicPartition

_POLL_S = 0.1
_COMMIT_INTERVAL_MS = 500


class Sightings:
    """Records that the members of a group have read of a topic: values by partition and offset."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.values: dict[int, dict[int, str]] = defaultdict(dict)
        self.violations: list[Violation] = []
        self.trouble: list[str] = []
        self._lock = threading.Lock()

    def see(self, partition: int, offset: int, value: str) -> None:
        with self._lock:
            before = self.values[partition].setdefault(offset, value)
            if before != value:
                text = f"{self.topic}-{partition}: offset {offset} was read as {before} and as {value}"
                self.violations.append(Violation(Kind.INCONSISTENT_OFFSETS, text))

    def violate(self, kind: Kind, text: str) -> None:
        with self._lock:
            self.violations.append(Violation(kind, f"{self.topic}: {text}"))

    def has(self, count: int) -> bool:
        """Returns whether that many records were read."""
        with self._lock:
            return sum(len(each) for each in self.values.values()) >= count


class Positions:
    """The next offset of each assigned partition: a poll neither goes back nor skips anything."""

    def __init__(self, name: str, sightings: Sightings) -> None:
        self._name = name
        self._sightings = sightings
        self._next: dict[int, int] = {}

    def forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def take(self, partition: int, offset: int, value: str) -> None:
        expected = self._next.get(partition, offset)
        if offset != expected:
            kind = Kind.POLL_SKIP if offset > expected else Kind.NONMONOTONIC_POLL
            self._sightings.violate(kind, f"{self._name} read {offset} of {partition} instead of {expected}")
        self._next[partition] = offset + 1
        self._sightings.see(partition, offset, value)


class Member:
    """A thread that reads from `start` to `stop`."""

    def __init__(self, name: str, library: str, bootstrap: str, sightings: Sightings) -> None:
        self._name = name
        self._bootstrap = bootstrap
        self._sightings = sightings
        self._positions = Positions(name, sightings)
        self._stopping = threading.Event()
        run = self._run_librdkafka if library == "librdkafka" else self._run_cordwood
        self._thread = threading.Thread(target=self._guard, args=(run,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _guard(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 the sightings record it
            self._sightings.violate(Kind.CLIENT_ERROR, f"{self._name} ended: {error!r}")

    def _run_librdkafka(self) -> None:
        consumer = LibrdkafkaConsumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._sightings.group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
                "log_level": 0,
            }
        )

        def forget(_consumer: LibrdkafkaConsumer, partitions: list[LibrdkafkaPartition]) -> None:
            self._positions.forget([each.partition for each in partitions])

        consumer.subscribe([self._sightings.topic], on_assign=forget, on_revoke=forget, on_lost=forget)
        while not self._stopping.is_set():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self._sightings.trouble.append(str(error))
                continue
            value = cast(bytes, message.value()).decode()
            self._positions.take(cast(int, message.partition()), cast(int, message.offset()), value)
        try:
            consumer.close()
        except KafkaException as error:
            self._sightings.trouble.append(str(error))

    def _run_cordwood(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._sightings.group,
            "group.protocol": "classic",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
        }
        with Consumer(settings) as consumer:
            consumer.subscribe([self._sightings.topic], listener=self)
            while not self._stopping.is_set():
                try:
                    polled = consumer.poll(timeout_ms=_POLL_S * 1000)
                except ClientError as error:
                    self._sightings.trouble.append(repr(error))
                    continue
                for records in polled.values():
                    for record in records:
                        self._positions.take(record.partition, record.offset, cast(bytes, record.value).decode())

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._positions.forget([each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._positions.forget([each.partition for each in revoked])


class CommittedOffsets:
    """Never go back. To be checked while the cluster is healthy: an isolated coordinator does not know its successor
    yet, and reports its own state."""

    def __init__(self, bootstrap: str, groups: list[str]) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._last: dict[tuple[str, TopicPartition], int] = {}

    def check(self) -> list[Violation]:
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            found = admin.list_consumer_group_offsets(self._groups, require_stable=True)
        violations: list[Violation] = []
        for group, offsets in found.items():
            for partition, committed in offsets.items():
                before = self._last.get((group, partition), -1)
                if committed.offset < before:
                    text = f"{group}: {partition} from {before} to {committed.offset}"
                    violations.append(Violation(Kind.COMMIT_WENT_BACK, text))
                self._last[group, partition] = committed.offset
        gone = [key for key in self._last if key[1] not in found.get(key[0], {})]
        violations += [Violation(Kind.COMMIT_WENT_BACK, f"{group}: {part} is gone") for group, part in gone]
        for key in gone:
            del self._last[key]
        return violations
