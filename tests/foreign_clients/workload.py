"""A producer and a reader that run until they are stopped, and record their observations."""

import threading
from collections.abc import Callable
from itertools import count
from time import monotonic, sleep
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.foreign_clients.kafka_client import PATIENCE_S, Address, Sending
from tests.foreign_clients.librdkafka_client import connection_settings, consumer_settings, producer_settings

# Sent and not acknowledged: enough to be busy, few enough to be reported soon.
_IN_FLIGHT = 500
_BURST = 50


class SteadyProducer:
    """Sends "0", "1", "2", … to one partition, idempotently, through whatever happens to the broker."""

    def __init__(self, address: Address, topic: str, *, per_second: int = 20_000) -> None:
        self.acknowledged: dict[int, int] = {}  # offset → number
        self.failures: list[str] = []
        # Errors that the library reports beside deliveries, such as lost connections.
        self.events: list[str] = []
        self._topic = topic
        self._producer = Producer(
            connection_settings(address)
            | producer_settings(Sending(idempotent=True, linger_ms=2, batch_bytes=10_000))
            | {"error_cb": lambda error: self.events.append(str(error)), "message.timeout.ms": int(PATIENCE_S * 1000)}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady producer", daemon=True)
        self._sent = 0
        self._pause_s = _BURST / per_second

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def await_acknowledged(self, more: int) -> None:
        """Until this many more are acknowledged."""
        target = len(self.acknowledged) + more
        _await(lambda: len(self.acknowledged) >= target or bool(self.failures), f"{target} acknowledgements")
        assert not self.failures, self.failures[0]

    def stop(self) -> int:
        """Sends no more, waits for what is in progress, and returns how many were sent."""
        self._stopping.set()
        self._thread.join()
        return self._sent

    def _run(self) -> None:
        for number in count():
            if number % _BURST == 0 and self._stopping.wait(self._pause_s):
                break
            while self._sent - len(self.acknowledged) - len(self.failures) >= _IN_FLIGHT:
                self._producer.poll(0.05)
                if self._stopping.is_set():
                    break

            def delivered(error: KafkaError | None, message: Message, number: int = number) -> None:
                if error is not None:
                    self.failures.append(str(error))
                else:
                    offset = message.offset()
                    assert offset is not None
                    self.acknowledged[offset] = number

            self._producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=delivered)
            self._sent += 1
            self._producer.poll(0)
        self._producer.flush(PATIENCE_S)


class SteadyReader:
    """Reads one partition from its start, and checks that the numbers in it ascend by one."""

    def __init__(self, address: Address, topic: str) -> None:
        self.next_number = 0
        self.failures: list[str] = []
        self.events: list[str] = []
        settings: dict[str, Any] = connection_settings(address) | consumer_settings("read_uncommitted")
        self._consumer = Consumer(settings | {"error_cb": lambda error: self.events.append(str(error))})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def await_number(self, number: int) -> None:
        _await(lambda: self.next_number >= number or bool(self.failures), f"{number} records")
        assert not self.failures, self.failures[0]

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.failures.append(str(error))
            elif message.value() != b"%d" % self.next_number:
                self.failures.append(f"offset {message.offset()}: {message.value()!r}, not {self.next_number}")
            else:
                self.next_number += 1
                continue
            return


def _await(holds: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + PATIENCE_S
    while not holds():
        assert monotonic() < deadline, f"no {what} within {PATIENCE_S:g} s"
        sleep(0.01)
