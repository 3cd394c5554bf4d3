"""**Consumer**: the application's interface. Reads topics that its group assigns, or partitions chosen manually.

async with Consumer("orders", settings=ConsumerSettings(group_id="billing"), network=network) as consumer:
    async for record in consumer:
        print(record.offset, record.value)
"""

import asyncio
import inspect
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cordwood.client.arguments import (
    CommittedOffset,
    Time,
    by_partition,
    name_of,
    number_of,
    offset_of,
    offsets_of,
    partition_of,
    partitions_given,
    partitions_of,
    time_of,
    timeout_of,
)
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.fetches.buffers import Rendered
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.interceptors import Interceptors
from cordwood.client.consumer.offsets import lookups
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.consumer.offsets.reset_strategy import TO_BEGINNING, TO_END, ResetStrategy
from cordwood.client.consumer.running import Running
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription, SubscriptionPattern, check_listener, pattern_of
from cordwood.client.consumer.turns import ReadingTurns
from cordwood.client.errors import BadSetting, Closed, IllegalState, SerializationFailed
from cordwood.client.offset_types import OffsetAndMetadata, OffsetAndTimestamp
from cordwood.client.offsets import EARLIEST, LATEST
from cordwood.client.schema_hooks import load_for
from cordwood.runtime.clock import Clock, SystemClock
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.wire.record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from cordwood.client.consumer.offsets.commits import CommitCallback
    from cordwood.wire.record_text import RecordText

T = TypeVar("T")

Records = dict[TopicPartition, list[ConsumerRecord]]

_CLOSE_TIMEOUT_S = 30.0


class Consumer:
    """Belongs to one event loop, and one task at a time reads with it. Calls raise a `ClientError`, or errors of the
    application's own listeners and deserializers."""

    def __init__(
        self,
        *topics: str,
        settings: ConsumerSettings,
        network: Network,
        bootstrap: Sequence[Address] = (),
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        ResetStrategy.parse(settings.auto_offset_reset)
        self.settings = settings
        self._network = network
        self._bootstrap = bootstrap or settings.bootstrap_servers
        self._clock = clock if clock is not None else SystemClock()
        self._random = random if random is not None else SeededRandom()
        self._subscription = Subscription()
        self._interceptors = Interceptors(settings.interceptors)
        self._running: Running | None = None
        self._turns = ReadingTurns(self._subscription)
        self._is_closed = False
        self._handed: tuple[PartitionState, Iterator[ConsumerRecord]] | None = None
        # The partition of the single record that the application is processing.
        self._in_hand: PartitionState | None = None
        if topics:
            self.subscribe(topics)

    # ---- from start to stop

    async def start(self) -> None:
        """Connects. Raises `CannotReachCluster` when no bootstrap address answers."""
        if self._is_closed:
            raise Closed("the consumer is closed")
        if self._running is not None:
            return
        client = await Client.connect(self._bootstrap, self.settings, network=self._network, random=self._random)
        self._running = Running(
            client,
            self.settings,
            self._subscription,
            self._interceptors,
            network=self._network,
            clock=self._clock,
            random=self._random,
            call=self._call,
        )
        self._subscribed()

    async def stop(self) -> None:
        await self.close()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Commits, if auto-commit is enabled, leaves the group, and closes; within 30 s by default."""
        if self._turns.is_over:
            return
        self._turns.is_over = True
        running = self._running
        if running is None:
            self._is_closed = True
            return
        # Wakes a waiting poll.
        running.reader.news.set()
        try:
            await running.close(_CLOSE_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000)
        finally:
            self._is_closed = True
            self._running = None
            self._interceptors.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._put_back()
        await self.close()

    def _put_back(self) -> None:
        """Marks the last record as unread, because processing it failed."""
        state, self._in_hand = self._in_hand, None
        if state is not None and self._subscription.states.get(state.partition) is state:
            # The position is right after that record.
            state.offset -= 1

    # ---- subscription

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: "str | re.Pattern[str] | SubscriptionPattern | None" = None,
        listener: Any = None,
    ) -> None:
        """Subscribes to topics by name, or by a pattern, which includes topics created later. With KIP-848 a text, or a
        `SubscriptionPattern`, is in RE2's syntax and matched by the broker; other patterns are matched here.

        Replaces the previous subscription. Partitions are assigned within calls that read; `listener` is told about it
        (`RebalanceListener`).
        """
        check_listener(listener)
        if (pattern is None) == (not topics):
            raise BadSetting("subscribe takes either topics or a pattern")
        if self.settings.group_id is None:
            raise BadSetting("subscribe needs a group_id; set it, or use assign()")
        if pattern is None:
            self._subscription.subscribe(topics, listener)
        else:
            is_remote = self.settings.group_protocol == "consumer"
            self._subscription.subscribe_pattern(pattern_of(pattern, is_remote=is_remote), listener)
        self._subscribed()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Assigns partitions manually, without a group. Replaces the previous assignment; an empty one is
        `unsubscribe`."""
        chosen = partitions_of(partitions)
        if self._running is not None:
            self._running.auto_commit()
        dropped = self._subscription.assign(chosen)
        if not chosen:
            self._subscription.unsubscribe()
        if self._running is not None:
            self._running.reader.dropped(dropped)
            self._running.reader.watch.wanted_changed()

    async def unsubscribe(self) -> None:
        """Stops reading, and leaves the group. Raises its listener's error when that is done."""
        try:
            if self._running is not None:
                await self._running.unsubscribe()
        finally:
            dropped = self._subscription.unsubscribe()
            if self._running is not None:
                self._running.reader.dropped(dropped)

    def _subscribed(self) -> None:
        if self._running is not None:
            if self._subscription.is_group_managed and self._subscription.pattern is None:
                self._running.subscribe()
            self._running.reader.watch.wanted_changed()

    def assignment(self) -> set[TopicPartition]:
        return set(self._subscription.states)

    def subscription(self) -> set[str]:
        return set(self._subscription.topics)

    # ---- reading

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Returns records by partition, at most `max_poll_records`; empty if none arrive within the timeout."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float | None = 0, max_records: int | None = None
    ) -> Records:
        """Like `poll`; only of these partitions, if any are named. None waits without limit."""
        return await self._take(partitions, timeout_ms, max_records)

    def wakeup(self) -> None:
        """Ends the wait of the reading task with a `WakeupError`; if none reads, the next one gets it, once. Reading
        then continues where it was, with a new iteration."""
        self._turns.is_woken = True
        if self._running is not None:
            self._running.wake()

    async def _take(
        self,
        partitions: tuple[TopicPartition, ...],
        timeout_ms: float | None,
        max_records: int | None,
        *,
        of_one: bool = False,
    ) -> Records:
        most = self._most(max_records)
        chosen = self._assigned(partitions)
        running = self._ready()
        running.reader.wait_for(chosen)
        buffers = running.reader.buffers
        return await self._shown(await self._next(lambda: buffers.take(chosen, most, of_one=of_one), timeout_ms))

    def _most(self, max_records: int | None) -> int:
        """Maximum number of records per poll."""
        most = self.settings.max_poll_records if max_records is None else number_of(max_records, "max_records")
        if most <= 0:
            raise BadSetting(f"max_records is {most}; expected 1 or more")
        return most

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Returns the next record; waits for it."""
        chosen = self._assigned(partitions)
        while True:
            running = self._ready()
            record = None
            if self._handed is not None and not chosen and not running.is_due:
                record = self._hand_one(*self._handed)
            if record is None:
                record = self._hand_one(*await self._next_handed(running, chosen))
            if record is not None:
                if not self._interceptors.see_records:
                    return record
                for kept in await self._shown_one(record):
                    return kept

    def _hand_one(self, state: PartitionState, records: Iterator[ConsumerRecord]) -> ConsumerRecord | None:
        record = next(records, None)
        if record is not None:
            state.advance(record.offset + 1, record.leader_epoch)
            self._in_hand = state
        return record

    async def _next_handed(
        self, running: Running, partitions: Collection[TopicPartition]
    ) -> tuple[PartitionState, Iterator[ConsumerRecord]]:
        """Returns records of one partition to iterate over, once there are some."""
        running.reader.wait_for(partitions)
        buffers, most = running.reader.buffers, self.settings.max_poll_records
        self._handed = handed = await self._next(lambda: buffers.hand(partitions, most), None)
        assert handed is not None
        running.hand_out()
        return handed

    async def _shown(self, records: Records) -> Records:
        """Passes records through the interceptors."""
        if not records or not self._interceptors.see_records:
            return records
        try:
            shown: Records = await self._call(self._interceptors.on_consume, records)
        except asyncio.CancelledError:
            # These records are not delivered.
            self._give_back(records)
            raise
        return shown

    async def _shown_one(self, record: ConsumerRecord) -> list[ConsumerRecord]:
        """Passes a record through the interceptors, which may drop or replace it."""
        records = await self._shown({TopicPartition(record.topic, record.partition): [record]})
        return [kept for each in records.values() for kept in each]

    def _give_back(self, records: Records) -> None:
        """Returns records that were taken but not received; they are delivered again."""
        for partition, taken in records.items():
            if taken and partition in self._subscription.states:
                self.seek(partition, taken[0].offset)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._records()

    async def _records(self) -> AsyncGenerator[ConsumerRecord, None]:
        """Yields records one by one; the position is after the last record yielded."""
        running = self._ready()
        is_intercepted = self._interceptors.see_records
        while True:
            state, records = await self._next_handed(running, ())
            self._in_hand = state
            for record in records:
                # Inlined `state.advance`: the call is a tenth of the cost of a record.
                state.offset = record[2] + 1
                state.epoch = record[8]
                if is_intercepted:
                    for kept in await self._shown_one(record):
                        yield kept
                else:
                    yield record
                if running.is_due:
                    break

    async def batches(
        self, *partitions: TopicPartition, max_records: int | None = None
    ) -> AsyncGenerator[tuple[TopicPartition, list[ConsumerRecord]], None]:
        """Yields batches, each of one partition. While a batch is being processed, the position is after all of it."""
        while True:
            # One partition at a time: a commit between two batches must not include the second.
            records = await self._take(partitions, None, max_records, of_one=True)
            for batch in records.items():
                yield batch

    async def arrow(
        self, *partitions: TopicPartition, timeout_ms: float | None = None, headers: bool = False
    ) -> "AsyncGenerator[pa.RecordBatch, None]":
        """Yields pyarrow's RecordBatches, each from one fetch of a partition: topic, partition, offset, timestamp, key,
        value and, on request, headers; without a Python object per record.

        Ends when nothing has come for `timeout_ms`. Deserializers and interceptors are not called.
        """
        from cordwood.client.consumer.fetches.arrow_batches import placed
        from cordwood.wire.arrow import require_pyarrow

        require_pyarrow()
        chosen = self._assigned(partitions)
        running = self._ready()
        while True:
            running.reader.wait_for(chosen)
            found = await self._next(lambda: running.reader.buffers.arrow(chosen, headers=headers), timeout_ms)
            if found is None:
                return
            partition, batch = found
            yield placed(batch, partition)

    async def render(
        self,
        text: "RecordText",
        *,
        timeout_ms: float | None = None,
        max_records: int | None = None,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> Rendered | None:
        """Appends records of one partition to `text`, without a Python object per record: those of one fetch, up to
        `max_records`, and up to the partition's end in `ends`. Returns None when nothing has come for `timeout_ms`.

        Deserializers and interceptors are not called. Don't mix with iterating record by record.
        """
        running = self._ready()
        running.reader.wait_for(())
        most = sys.maxsize if max_records is None else self._most(max_records)
        buffers = running.reader.buffers
        return await self._next(lambda: buffers.render((), text, most, ends or {}), timeout_ms)

    async def _next(self, take: Callable[[], T], timeout_ms: float | None) -> T:
        """Calls `take` until it returns something, or the timeout expires."""
        running = self._ready()
        self._in_hand = None
        while True:
            try:
                return await self._turns.next(running, take, timeout_ms)
            except SerializationFailed as error:
                await load_for(error)

    # ---- positions

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Sets the next offset to read. The leader epoch of an `OffsetAndMetadata` allows detecting a truncated log."""
        partition = partition_of(partition)
        where = offset_of(partition, offset)
        self._in_hand = None
        self._ready().reader.seek(partition, where.offset, where.leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Applies to all assigned partitions if none are named. The offset is looked up when it is needed."""
        self._reset(partitions, TO_BEGINNING)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._reset(partitions, TO_END)

    def _reset(self, partitions: tuple[TopicPartition, ...], strategy: ResetStrategy) -> None:
        chosen = partitions_given(partitions)
        self._in_hand = None
        self._ready().reader.reset(chosen, strategy)

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Returns the offset of the next record."""
        timeout_s = _seconds(timeout_ms)
        timeout_s = self.settings.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        return await self._ready().reader.position(partition_of(partition), timeout_s)

    def pause(self, *partitions: TopicPartition) -> None:
        """Suspends reading of these partitions until `resume`; they stay assigned."""
        self._ready().reader.pause(partitions_given(partitions, none_is_all=False))

    def resume(self, *partitions: TopicPartition) -> None:
        self._ready().reader.resume(partitions_given(partitions, none_is_all=False))

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, state in self._subscription.states.items() if state.paused}

    def lag(self, partition: TopicPartition) -> int | None:
        """Number of records left to read, as of the last fetch response; None before the first."""
        return self._subscription.state(partition_of(partition)).lag(read_committed=self._is_read_committed)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Returns the high watermark, as of the last response."""
        return self._subscription.state(partition_of(partition)).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the first open transaction, as of the last response."""
        return self._subscription.state(partition_of(partition)).last_stable_offset

    # ---- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits the current positions, or these offsets: each that of the next record to read. Retries until it is
        done."""
        running = self._ready()
        self._in_hand = None
        await running.group.commits.commit(self._offsets(offsets), _seconds(timeout_ms))
        await running.tell_commits()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset] | None = None,
        callback: "CommitCallback | None" = None,
    ) -> None:
        """Commits without retries. `callback(offsets, error)` is called within a later call that reads, commits or
        closes."""
        if callback is not None and not callable(callback):
            raise BadSetting(f"the callback is {callback!r}; expected a function of offsets and error")
        self._in_hand = None
        self._ready().group.commits.commit_async(self._offsets(offsets), callback)

    async def committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Returns the group's committed offsets of these partitions, or of all assigned ones."""
        running = self._ready()
        chosen = partitions_given(partitions) or sorted(self._subscription.states)
        return await running.group.commits.committed(chosen, _seconds(timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """Returns the argument for `Producer.send_offsets_to_transaction`: the membership under which records were
        returned, even if it has ended since."""
        return self._ready().group.driver.last_metadata

    def _offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._ready().reader.consumed() if offsets is None else offsets_of(offsets)

    # ---- metadata

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._listed(partitions, EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offset of the next record; with read_committed, that of the first open transaction."""
        return await self._listed(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, Time]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after a time, in ms since 1970 or as a datetime; None if there is none."""
        times = by_partition(timestamps, time_of, "timestamps", "a time")
        client = self._ready().client
        return await lookups.offsets_for_times(client, times, read_committed=self._is_read_committed)

    async def partitions_for(self, topic: str) -> set[int]:
        """Returns the topic's partition numbers; none if it does not exist."""
        return await lookups.partitions_for(self._ready().client, name_of(topic, "topic"))

    async def topics(self) -> set[str]:
        """Returns all topics that this consumer may see."""
        return await lookups.topic_names(self._ready().client, exclude_internal=self.settings.exclude_internal_topics)

    def metrics(self) -> dict[str, float]:
        """Returns metrics by the names of Kafka's consumer metrics."""
        running = self._ready()
        return running.metrics.read(self._subscription, running.loop.time(), read_committed=self._is_read_committed)

    async def _listed(self, partitions: Collection[TopicPartition], spec: int) -> dict[TopicPartition, int]:
        chosen, client = partitions_of(partitions), self._ready().client
        return await lookups.listed_offsets(client, chosen, spec, read_committed=self._is_read_committed)

    @property
    def _is_read_committed(self) -> bool:
        return self.settings.isolation_level == "read_committed"

    # ---- helpers

    async def _call(self, callback: Callable[..., Any], *args: Any) -> Any:
        """All calls to the application's code pass through here."""
        result = callback(*args)
        return await result if inspect.isawaitable(result) else result

    def _ready(self) -> Running:
        if self._is_closed:
            raise Closed("the consumer is closed")
        if self._running is None:
            raise IllegalState("the consumer has not been started: await start(), or use it in `async with`")
        return self._running

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        chosen = partitions_given(partitions)
        for partition in chosen:
            self._subscription.state(partition)
        return chosen


def _seconds(timeout_ms: float | None) -> float | None:
    timeout_ms = timeout_of(timeout_ms)
    return None if timeout_ms is None else timeout_ms / 1000
