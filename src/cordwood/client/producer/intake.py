"""The general path from the application's call to the accumulator: interceptors, serializers, partition, memory.

`try_send` never waits, so that an application's thread may call it, under the producer's lock if needed. If the topic
is unknown or memory is short, it returns an `Unsent`, with which `send_when_possible` waits on the loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from operator import index
from typing import Any, NamedTuple, final

from cordwood.client.client import Client
from cordwood.client.cluster import Cluster, Topic, TopicPartition
from cordwood.client.errors import (
    BadSetting,
    BrokerError,
    BufferExhausted,
    ClientError,
    Closed,
    TimedOut,
    TopicNotCreated,
    TopicNotFound,
)
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import GivenHeaders, Headers
from cordwood.client.producer.buffer_pool import Reservation
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.input.interceptors import Interceptors, ProducerRecord
from cordwood.client.producer.input.partitioners import DefaultPartitioner, Partitioner
from cordwood.client.producer.input.serialization import checked_headers, serialize, serialize_record
from cordwood.client.producer.metrics import ProducerMetrics
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.shortcut import Shortcut
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.schema_hooks import RecordSerializer
from cordwood.runtime.clock import Clock
from cordwood.runtime.threads import Lock

_Target = tuple[Cluster, Topic, list[TopicPartition]]

_TIMES_END_MS = 1 << 63


@final
class Unsent(NamedTuple):
    """A serialized record that cannot be appended yet."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Headers


@dataclass(slots=True)
class _Asking:
    """A look-up of an unknown topic, or of a partition that a known topic does not seem to have."""

    name: str
    partition: int | None
    task: "asyncio.Task[Topic] | None" = None
    waiting: int = 0
    refusal: BrokerError | None = None
    """The last error from the brokers."""


class Intake:
    def __init__(
        self,
        settings: ProducerSettings,
        client: Client,
        accumulator: Accumulator,
        partitioner: Partitioner,
        *,
        transactions: Transactions | None,
        lock: Lock,
        clock: Clock,
        metrics: ProducerMetrics,
        wake_transactions: Callable[[], object],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._partitions_first = not partitioner.follows_load
        self._interceptors = Interceptors(settings.interceptors)
        # Used for each record, so it is read from the settings only once.
        self._is_intercepted = bool(self._interceptors)
        self._hears_acknowledgements = self._interceptors.hear_acknowledgements
        self._key_serializer = settings.key_serializer
        self._value_serializer = settings.value_serializer
        self._sees_records = any(
            isinstance(each, RecordSerializer) for each in (settings.key_serializer, settings.value_serializer)
        )
        self._max_block_s = settings.max_block_ms / 1000
        self._transactions = transactions
        self._wake_transactions = wake_transactions
        self._lock = lock
        self._clock = clock
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        # Created once per topic and metadata: a record then costs no object but its delivery.
        self._targets: tuple[Cluster, dict[str, _Target]] = (client.cluster, {})
        self._default_partitioner = partitioner if isinstance(partitioner, DefaultPartitioner) else None
        self._shortcut: Shortcut | None = None
        if transactions is None and not self._is_intercepted:
            self._shortcut = Shortcut(
                client,
                lock,
                clock.now_ms,
                self._take,
                serializes_keys=self._key_serializer is not None,
                serializes_values=self._value_serializer is not None,
                knows_keys=self._default_partitioner is not None and not self._default_partitioner.ignores_keys,
            )
        self.try_send: Callable[[str, Any, Any, int | None, int | None, GivenHeaders], Delivery | Unsent] = (
            self._shortcut.send if self._shortcut is not None else self._take
        )
        """Raises errors of the record, or of the transaction."""
        self._asking: dict[tuple[str, int | None], _Asking] = {}
        self._is_closed = False
        self._blocked: dict[asyncio.Event, None] = {}

    async def send_when_possible(self, unsent: Unsent) -> Delivery:
        """Waits up to `max_block_ms`, for the topic and for memory together."""
        deadline_s = self._loop.time() + self._max_block_s
        try:
            await self.known_topic(unsent.topic, unsent.partition, deadline_s)
            outcome = self._append(*unsent, None)
            return await self._append_in_turn(outcome, deadline_s) if isinstance(outcome, Unsent) else outcome
        except ClientError as error:
            self.refused(error)
            if self._interceptors:
                self._interceptors.on_acknowledgement(None, error)
            raise

    def refused(self, error: ClientError) -> None:
        """A record was not queued. As in Kafka that spoils its transaction, since the application might commit it
        without the record; except for invalid calls: something that cannot be serialized never belonged to it."""
        if self._transactions is not None and isinstance(error, BrokerError | TimedOut):
            with self._lock:
                self._transactions.batch_failed(error)

    async def known_topic(self, name: str, partition: int | None = None, deadline_s: float | None = None) -> Topic:
        """Looks up an unknown topic, which brokers may create, or an unknown partition: the topic may have grown, and
        not every broker knows of that yet."""
        topic = self._client.cluster.topics.get(name)
        if topic is not None and (partition is None or 0 <= partition < len(topic.partitions)):
            return topic
        if not isinstance(name, str):
            raise BadSetting(f"topic is {name!r}; expected a str")
        if partition is not None and partition < 0:
            raise BadSetting(f"partition is {partition}; expected 0 or more")
        began_s = self._loop.time()
        deadline_s = began_s + self._max_block_s if deadline_s is None else deadline_s
        asking = self._asking_for(name, partition)
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._answer(asking)
        except TimeoutError:
            raise self._unknown(asking) from None
        finally:
            self._metrics.waited("metadata-wait", self._loop.time() - began_s)

    @asynccontextmanager
    async def reserved(
        self, reserve: Callable[[Callable[[], object]], Reservation], topic: str, deadline_s: float
    ) -> AsyncIterator[Reservation]:
        """Reserves memory, granted in request order; the end of `with` returns the unused part.

        Raises `BufferExhausted`. Closing the producer ends the wait, and appending then raises the reason.
        """
        began_s = self._loop.time()
        granted = asyncio.Event()
        self._blocked[granted] = None
        with self._lock:
            reservation = reserve(granted.set)
        try:
            try:
                async with asyncio.timeout_at(deadline_s):
                    await granted.wait()
            except TimeoutError:
                self._metrics.count("buffer-exhausted", 1, self._loop.time())
                raise BufferExhausted(
                    f"no buffer space for a record of topic {topic} within {self._max_block_s:g} s (max_block_ms): "
                    f"{self._accumulator.pool.total_bytes} bytes are buffered (buffer_memory)"
                ) from None
            yield reservation
        finally:
            del self._blocked[granted]
            with self._lock:
                reservation.cancel()
            self._metrics.waited("bufferpool-wait", self._loop.time() - began_s)

    @property
    def waiting(self) -> int:
        """Number of calls waiting for room."""
        return len(self._blocked)

    def close(self) -> None:
        """The accumulator is closed: wakes the calls waiting for room."""
        if self._is_closed:
            return
        self._is_closed = True
        for asking in self._asking.values():
            if asking.task is not None:
                asking.task.cancel()
        for waiting in self._blocked:
            waiting.set()
        self._interceptors.close()

    # ---- helpers

    def _take(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: GivenHeaders,
    ) -> Delivery | Unsent:
        if self._is_intercepted:
            return self._take_intercepted(ProducerRecord(topic, value, key, partition, timestamp_ms, headers))
        checked = checked_headers(headers, topic) if headers else ()
        if self._sees_records:
            key, value, checked = self._serialized(topic, key, value, checked)
        else:
            key = serialize(key, self._key_serializer, "key", topic)
            value = serialize(value, self._value_serializer, "value", topic)
        timestamp_ms = self._clock.now_ms() if timestamp_ms is None else _checked_time(timestamp_ms)
        if self._shortcut is not None:
            delivery = self._shortcut.append(topic, key, value, partition, timestamp_ms, checked)
            if delivery is not None:
                return delivery
        return self._append(topic, key, value, partition, timestamp_ms, checked, None)

    def _take_intercepted(self, record: ProducerRecord) -> Delivery | Unsent:
        record = self._interceptors.on_send(record)
        topic = record.topic
        try:
            headers = checked_headers(record.headers, topic) if record.headers else ()
            key, value, headers = self._serialized(topic, record.key, record.value, headers)
            timestamp_ms = self._clock.now_ms() if record.timestamp_ms is None else _checked_time(record.timestamp_ms)
            return self._append(topic, key, value, record.partition, timestamp_ms, headers, None)
        except ClientError as error:
            self._interceptors.on_acknowledgement(None, error)
            raise

    def _serialized(
        self, topic: str, key: Any, value: Any, headers: Headers
    ) -> tuple[bytes | None, bytes | None, Headers]:
        """Includes headers that serializers add."""
        key, of_key = serialize_record(key, self._key_serializer, "key", topic)
        value, of_value = serialize_record(value, self._value_serializer, "value", topic)
        if of_key or of_value:
            headers = [*headers, *of_key, *of_value]
        return key, value, headers

    def _append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        reservation: Reservation | None,
    ) -> Delivery | Unsent:
        """Returns Unsent if the topic is unknown, or there is no room."""
        if partition is not None and type(partition) is not int:
            partition = _checked_partition(partition)
        target = self._targets[1].get(topic)
        if target is None or target[0] is not self._client.cluster:
            target = self._target(topic)
            if target is None:
                return Unsent(topic, key, value, partition, timestamp_ms, headers)
        cluster, known, partitions = target
        now_s = self._now()
        if partition is not None:
            if not 0 <= partition < len(partitions):
                return Unsent(topic, key, value, partition, timestamp_ms, headers)
        elif self._partitions_first:
            partition = self._partitioner.partition(known, key, value, now_s)
        with self._lock:
            chosen = partitions[
                self._partitioner.partition(known, key, value, now_s) if partition is None else partition
            ]
            if self._transactions is not None:
                self._transactions.check_send()
            try:
                delivery = self._accumulator.append(chosen, timestamp_ms, key, value, headers, now_s, reservation)
            except BrokerError as error:
                if self._transactions is not None:
                    self._transactions.batch_failed(error)
                raise
            if self._transactions is not None and delivery is not None and self._transactions.add_partition(chosen):
                self._wake_transactions()
            if self._shortcut is not None and delivery is not None:
                sticky = self._default_partitioner.sticky(known) if self._default_partitioner is not None else None
                batch = self._accumulator.open_batch(chosen)
                self._shortcut.opened(cluster, known, sticky, chosen.partition, batch)
        if delivery is None:
            return Unsent(topic, key, value, partition, timestamp_ms, headers)
        if self._hears_acknowledgements:
            delivery.add_done_callback(self._tell_interceptors)
        return delivery

    def _target(self, topic: str) -> _Target | None:
        cluster = self._client.cluster
        known = cluster.topics.get(topic)
        if known is None:
            return None
        target = (cluster, known, [TopicPartition(topic, index) for index in range(len(known.partitions))])
        # Several threads may run this: each leaves a consistent state.
        before, targets = self._targets
        self._targets = (cluster, {**(targets if before is cluster else {}), topic: target})
        return target

    async def _append_in_turn(self, unsent: Unsent, deadline_s: float) -> Delivery:
        def reserve(granted: Callable[[], object]) -> Reservation:
            return self._accumulator.reserve(unsent.key, unsent.value, unsent.headers, granted)

        async with self.reserved(reserve, unsent.topic, deadline_s) as reservation:
            outcome = self._append(*unsent, reservation)
            while isinstance(outcome, Unsent):
                # The topic's metadata has expired; the reservation stays valid.
                await self.known_topic(unsent.topic, unsent.partition, deadline_s)
                outcome = self._append(*unsent, reservation)
            return outcome

    def _asking_for(self, name: str, partition: int | None) -> _Asking:
        """Has no timeout: each caller has its own, and the last to leave cancels it."""
        asking = self._asking.get((name, partition))
        if asking is None:
            asking = self._asking[name, partition] = _Asking(name, partition)

            async def attempt() -> Topic:
                asking.refusal = (await self._client.ask_for_topics([name], create=True)).get(name)
                topic = self._client.cluster.topics.get(name)
                if asking.refusal is None and topic is not None and partition is not None:
                    asking.refusal = _missing(topic, partition)
                if asking.refusal is not None:
                    raise asking.refusal
                return self._client.cluster.topics[name]

            asking.task = self._loop.create_task(self._client.retrying(attempt, inf))
        return asking

    async def _answer(self, asking: _Asking) -> Topic:
        assert asking.task is not None
        asking.waiting += 1
        try:
            return await asyncio.shield(asking.task)
        except asyncio.CancelledError:
            if asking.task.cancelled():
                raise Closed("the producer is closed") from None
            raise
        finally:
            asking.waiting -= 1
            if not asking.waiting:
                asking.task.cancel()
                del self._asking[asking.name, asking.partition]

    def _unknown(self, asking: _Asking) -> ClientError:
        """Returns the error after `max_block_ms`."""
        name, refusal = asking.name, asking.refusal
        waited = f"after {self._max_block_s:g} s (max_block_ms)"
        if isinstance(refusal, _NoSuchPartition):
            return TopicNotCreated(message=f"{refusal.message} {waited}", subject=refusal.subject)
        if isinstance(refusal, TopicNotFound):
            return TopicNotCreated(message=f"there is no such topic {waited}", subject=f"topic {name}")
        return TimedOut(f"topic {name} has no metadata {waited}" + ("" if refusal is None else f"; {refusal}"))

    def _tell_interceptors(self, delivery: Delivery) -> None:
        error = delivery.exception(0)
        self._interceptors.on_acknowledgement(None if error is not None else delivery.result(0), error)


class _NoSuchPartition(TopicNotFound):
    """The topic is there, and has too few partitions."""


def _missing(topic: Topic, partition: int) -> BrokerError | None:
    if partition < len(topic.partitions):
        return None
    return _NoSuchPartition(
        message=f"it has the partitions 0 to {len(topic.partitions) - 1}", subject=f"{topic.name}-{partition}"
    )


def _checked_partition(partition: Any) -> int:
    try:
        return index(partition)
    except TypeError:
        raise BadSetting(f"partition is {partition!r}; expected an int") from None


def _checked_time(timestamp_ms: int) -> int:
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms < _TIMES_END_MS:
        raise BadSetting(f"timestamp_ms is {timestamp_ms!r}; expected milliseconds since 1970, an int")
    return timestamp_ms
