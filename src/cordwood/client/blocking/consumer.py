"""**Consumer** for threads: the application's thread reads, and the consumer's own thread fetches and keeps up the
membership.

with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
    for record in consumer:
        print(record.offset, record.value)
"""

import re
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from cordwood.client.arguments import CommittedOffset, Time
from cordwood.client.blocking.facade import Facade
from cordwood.client.blocking.one_thread import OneThread
from cordwood.client.blocking.threaded_consumer import Handed, ThreadedCore
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Records
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.offsets.commits import CommitCallback
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import SubscriptionPattern
from cordwood.client.offset_types import OffsetAndMetadata, OffsetAndTimestamp
from cordwood.client.options.configuration import read_settings, split_topics
from cordwood.client.options.keywords import ConsumerKeywords
from cordwood.wire.record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

T = TypeVar("T")

Offsets = Mapping[TopicPartition, CommittedOffset]


class Consumer(Facade):
    """Reads records of topics assigned by its group, or of partitions assigned manually with `assign`.

    >>> with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
    ...     for record in consumer:
    ...         print(record.partition, record.offset, record.value)

    Settings are keywords, or a mapping with Kafka's dotted names (`options`, or in the first place); see
    docs/client-configuration.md. Connects at once, and raises `CannotReachCluster` when no bootstrap address answers.

    Only one thread at a time may use it; another gets `IllegalState`. Listeners and callbacks are called in that
    thread, within its calls. Heartbeats continue while it works. The end of `with` commits, if auto-commit is enabled,
    and leaves the group.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        options: Mapping[str, object] | None = None,
        **keywords: Unpack[ConsumerKeywords],
    ) -> None:
        names, options = split_topics(topics, options)
        settings = read_settings(ConsumerSettings, options, keywords)
        super().__init__(f"the consumer {settings.client_id}")
        self._only = OneThread(self._name)
        self._held: Handed | None = None
        try:
            self._core = self._run(ThreadedCore.started(names, settings, self._portal))
        except BaseException:
            self._portal.close()
            raise
        self._opened()

    def close(self, timeout_ms: int | None = None) -> None:
        """Commits, if auto-commit is enabled, leaves the group, and closes; within 30 s by default."""
        with self._only:
            self._end(self._core.close(timeout_ms))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._core.put_back()
        self.close()

    # ---- subscription

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: "str | re.Pattern[str] | SubscriptionPattern | None" = None,
        listener: Any = None,
    ) -> None:
        """Subscribes to topics by name, or by a pattern; replaces the previous subscription. `listener` is told, within
        calls that read, about assigned and revoked partitions (`RebalanceListener`).

        >>> consumer.subscribe(["orders", "payments"])
        >>> consumer.subscribe(pattern="orders-.*")
        """
        self._do(self._core.subscribe, topics, pattern, listener)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Assigns partitions manually, without a group.

        >>> consumer.assign([TopicPartition("orders", 0)])
        """
        self._do(self._core.assign, partitions)

    def unsubscribe(self) -> None:
        """Stops reading, and leaves the group."""
        self._ask(self._core.unsubscribe())

    def assignment(self) -> set[TopicPartition]:
        return self._do(self._core.assignment)

    def subscription(self) -> set[str]:
        return self._do(self._core.subscription)

    # ---- reading

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Returns records by partition, at most `max_poll_records`; empty if none arrive within the timeout.

        >>> for partition, records in consumer.poll(timeout_ms=1000).items():
        ...     print(partition, len(records))
        """
        most = self._core.most(max_records)
        with self._only:
            return self._take_held(most) or self._take_next(most, timeout_ms)

    def wakeup(self) -> None:
        """Callable from any thread: ends the wait of a thread that reads, with a `WakeupError`; if none reads, the next
        call that does gets it, once. Reading then continues where it was.

        >>> signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
        """
        self._core.wake_reader()

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float | None = 0, max_records: int | None = None
    ) -> Records:
        """Like `poll`; only of these partitions, if any are named. None waits without limit."""
        work = self._core.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        return self._ask(work, self._give_back)

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Returns the next record; waits for it."""
        return self._ask(self._core.getone(*partitions), lambda record: self._give_back(_of_one(record)))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Iterates over records without end; the position is after the last record returned."""
        core = self._core
        is_intercepted = core.is_intercepted
        while True:
            with self._only:
                state, records = self._run(core.hand())
            running = core.running
            core.in_hand = state
            for record in records:
                # In this thread: asking the other thread for each record would cost fifty times as much.
                state.offset = record[2] + 1
                state.epoch = record[8]
                if is_intercepted:
                    yield from core.intercepted([record])
                else:
                    yield record
                if running.is_due:
                    break

    def batches(
        self, *partitions: TopicPartition, max_records: int | None = None
    ) -> Iterator[tuple[TopicPartition, list[ConsumerRecord]]]:
        """Iterates over batches, each of one partition. While a batch is being processed, the position is after all of
        it.

        >>> for partition, records in consumer.batches(max_records=10_000):
        ...     save(records)
        ...     consumer.commit()
        """
        batches = self._core.batches(*partitions, max_records=max_records)
        return self._drive(batches, lambda batch: self._give_back(dict([batch])))

    def arrow(
        self, *partitions: TopicPartition, timeout_ms: float | None = None, headers: bool = False
    ) -> "Iterator[pa.RecordBatch]":
        """Yields pyarrow's RecordBatches, each from one fetch of a partition, without a Python object per record. Ends
        when nothing has come for `timeout_ms`. Deserializers and interceptors are not called.

        >>> for batch in consumer.arrow():
        ...     writer.write_batch(batch)
        """
        batches = self._core.arrow(*partitions, timeout_ms=timeout_ms, headers=headers)
        return self._drive(batches, self._give_arrow_back)

    # ---- positions

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Sets the next offset to read.

        >>> consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._do(self._core.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Applies to all assigned partitions if none are named."""
        self._do(self._core.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Applies to all assigned partitions if none are named."""
        self._do(self._core.seek_to_end, *partitions)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Returns the offset of the next record."""
        return self._ask(self._core.position(partition, timeout_ms))

    def pause(self, *partitions: TopicPartition) -> None:
        """Suspends reading of these partitions until `resume`; they stay assigned."""
        self._do(self._core.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._do(self._core.resume, *partitions)

    def paused(self) -> set[TopicPartition]:
        return self._do(self._core.paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Number of records left to read, as of the last fetch response; None before the first."""
        return self._do(self._core.lag, partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Returns the high watermark, as of the last response."""
        return self._do(self._core.highwater, partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the first open transaction, as of the last response."""
        return self._do(self._core.last_stable_offset, partition)

    # ---- commits

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commits the current positions, or these offsets: each that of the next record to read. Retries until it is
        done.

        >>> consumer.commit({TopicPartition("orders", 0): record.offset + 1})
        """
        self._ask(self._core.commit(offsets, timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commits without retries. `callback(offsets, error)` is called within a later call that reads, commits or
        closes."""
        self._do(self._core.commit_async, offsets, callback)

    def committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets of these partitions, or of all assigned ones."""
        return self._ask(self._core.committed(*partitions, timeout_ms=timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """Returns the argument for `Producer.send_offsets_to_transaction`."""
        return self._do(self._core.group_metadata)

    # ---- metadata

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ask(self._core.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset of the next record; with read_committed, that of the first open transaction."""
        return self._ask(self._core.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, Time]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after a time, in ms since 1970 or as a datetime; None if there is none."""
        return self._ask(self._core.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> set[int]:
        """Returns the topic's partition numbers; none if it does not exist."""
        return self._ask(self._core.partitions_for(topic))

    def topics(self) -> set[str]:
        """Returns all topics that this consumer may see."""
        return self._ask(self._core.topics())

    def metrics(self) -> dict[str, float]:
        """Returns metrics by Kafka's names.

        >>> consumer.metrics()["records-lag-max"]
        """
        return self._do(self._core.metrics)

    # ---- helpers

    def _take_held(self, most: int) -> Records:
        """Takes records handed over earlier, unless the loop's thread may have other work for this thread by now."""
        if self._held is None or self._core.running.is_due:
            return {}
        return self._take_of(*self._held, most)

    def _take_next(self, most: int, timeout_ms: float | None) -> Records:
        """Takes records from the loop's thread; if a partition has many, they are handed over in bulk, for later calls
        too."""
        self._held = None
        found = self._run(self._core.take_or_hand(most, timeout_ms), self._give_back)
        if not isinstance(found, tuple):
            return found
        self._held = found
        return self._take_of(*found, most)

    def _take_of(self, state: PartitionState, held: Iterator[ConsumerRecord], most: int) -> Records:
        records = list(islice(held, most))
        if not records:
            self._held = None
            return {}
        last = records[-1]
        self._core.in_hand = None
        state.advance(last.offset + 1, last.leader_epoch)
        if self._core.is_intercepted:
            records = self._core.intercepted(records)
        return {TopicPartition(last.topic, last.partition): records} if records else {}

    def _give_back(self, records: Records | Handed) -> None:
        """Records count as consumed when they are taken; returns the rest, which was not received."""
        if not isinstance(records, tuple):
            self._do(self._core.give_back, records)

    def _give_arrow_back(self, batch: "pa.RecordBatch") -> None:
        place = TopicPartition(batch["topic"][0].as_py(), batch["partition"][0].as_py())
        self._do(self._core.seek, place, batch["offset"][0].as_py())

    def _ask(self, work: Coroutine[Any, Any, T], undelivered: Callable[[T], None] | None = None) -> T:
        try:
            self._only.__enter__()
        except BaseException:
            work.close()
            raise
        try:
            return self._run(work, undelivered)
        finally:
            self._only.__exit__(None, None, None)

    def _do(self, call: Callable[..., T], *args: Any) -> T:
        """Runs a non-blocking call on the loop's thread."""
        return self._ask(_now(call, args))

    def _drive(self, items: AsyncGenerator[T, None], undelivered: Callable[[T], None]) -> Iterator[T]:
        def give_back(found: tuple[bool, T | None]) -> None:
            if found[1] is not None:
                undelivered(found[1])

        try:
            while True:
                found, item = self._ask(_next_of(items), give_back)
                if not found:
                    return
                assert item is not None
                yield item
        finally:
            if self._is_open:
                self._ask(_finish(items))

    def _last_work(self, timeout_s: float) -> Coroutine[Any, Any, None]:
        return self._core.close(round(timeout_s * 1000))


def _of_one(record: ConsumerRecord) -> Records:
    return {TopicPartition(record.topic, record.partition): [record]}


async def _now(call: Callable[..., T], args: tuple[Any, ...]) -> T:
    return call(*args)


async def _next_of(items: AsyncGenerator[T, None]) -> tuple[bool, T | None]:
    async for item in items:
        return True, item
    return False, None


async def _finish(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()
