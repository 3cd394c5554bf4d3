"""Idempotent producers with acks=all, one with librdkafka and one with our client.

Each writes 0, 1, 2, … to every partition of its topic, and keeps which of them were acknowledged at which offset. It
never waits for an acknowledgement: during a fault the numbers queue up in the client.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as LibrdkafkaProducer

from chaos.gaps import GapMeter
from cordwood import Delivery, Producer

_FLUSH_S = 180.0
_STALLED_S = 0.05


class History:
    """`acknowledged` by partition: offset and number, in the order of their acknowledgements."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(list)
        # May be in the log, or not. A producer without its own fault has none.
        self.failures: list[str] = []

    @property
    def count(self) -> int:
        return sum(len(each) for each in self.acknowledged.values())


class Writer:
    """A thread that sends at a steady rate from `start` to `stop`."""

    def __init__(self, name: str, connect: Callable[[], WritingClient], history: History, per_second: int) -> None:
        self.name = name
        self.history = history
        self._connect = connect
        self._pause_s = history.partitions / per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended_with: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when all records are acknowledged, or have failed."""
        self._stopping.set()
        self._thread.join()
        if self._ended_with is not None:
            self.history.failures.append(f"the writer ended: {self._ended_with!r}")

    def _run(self) -> None:
        due = time.monotonic()
        try:
            client = self._connect()
            while not self._stopping.is_set():
                for partition in range(self.history.partitions):
                    client.send(partition, self.history.sent)
                self.history.sent += 1
                due = max(due + self._pause_s, time.monotonic() - _STALLED_S)
                client.wait(max(0.0, due - time.monotonic()))
            client.flush()
        except (KafkaException, Exception) as error:  # noqa: BLE001 the history records it
            self._ended_with = error


class WritingClient(Protocol):
    def send(self, partition: int, number: int) -> None: ...

    def wait(self, seconds: float) -> None: ...

    def flush(self) -> None: ...


class LibrdkafkaWriting:
    def __init__(self, bootstrap: str, history: History, meter: GapMeter) -> None:
        self._history = history
        self._meter = meter
        self._producer = LibrdkafkaProducer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def send(self, partition: int, number: int) -> None:
        self._producer.produce(
            self._history.topic,
            b"%d" % number,
            partition=partition,
            on_delivery=partial(self._delivered, partition, number),
        )

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._producer.poll(seconds)
        while (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_S)
        if left:
            self._history.failures.append(f"{left} records were not delivered within {_FLUSH_S:g} s")

    def _delivered(self, partition: int, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._history.failures.append(str(error))
            return
        offset = message.offset()
        assert offset is not None
        self._meter.acknowledge(partition)
        self._history.acknowledged[partition].append((offset, number))


class CordwoodWriting:
    def __init__(self, bootstrap: str, history: History, meter: GapMeter) -> None:
        self._history = history
        self._meter = meter
        self._producer = Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, delivery_timeout_ms=300_000)

    def send(self, partition: int, number: int) -> None:
        delivery = self._producer.send(self._history.topic, b"%d" % number, partition=partition)
        delivery.add_done_callback(partial(self._delivered, partition, number))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        self._producer.close()

    def _delivered(self, partition: int, number: int, delivery: Delivery) -> None:
        try:
            offset = delivery.result().offset
        except Exception as error:  # noqa: BLE001 the history records it
            self._history.failures.append(repr(error))
            return
        self._meter.acknowledge(partition)
        self._history.acknowledged[partition].append((offset, number))
