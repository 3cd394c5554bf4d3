"""Reads partitions between offsets, without a group, for `cordwood consume`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from cordwood.cli.topics.topic_choice import is_pattern, matches_any
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.errors import ClientError, OffsetOutOfRange
from cordwood.wire.record_text import RecordText

Offsets = Mapping[TopicPartition, int]
Moved = Callable[[TopicPartition, int, int], None]

# Consumers don't report markers and gaps after the last record: after this long without records, check the position.
_QUIET_MS = 100


class PartitionReading:
    """Needs a consumer without `auto_offset_reset`. With `ends`, a partition is done when it is read up to its end.

    Calls `moved` with the old and new offset if records were deleted before they were read.
    """

    def __init__(self, consumer: Consumer, starts: Offsets, ends: Offsets | None, moved: Moved) -> None:
        self._consumer = consumer
        self._starts = starts
        self._ends = ends
        self._moved = moved
        self._left = {partition for partition in starts if ends is None or starts[partition] < ends[partition]}
        self._passed: dict[TopicPartition, int] = {}

    @property
    def passed_offsets(self) -> int:
        """Offsets passed so far towards the ends, over all partitions."""
        return sum(self._passed.values())

    async def written(self, text: RecordText, most: int | None = None) -> AsyncGenerator[int, None]:
        """Appends records to `text`, each time of one partition, and yields their number; at most `most` in total.

        Ends when every partition is done; without ends it never does.
        """
        if self._left:
            self._consumer.assign(self._left)
        for partition in self._left:
            self._consumer.seek(partition, self._starts[partition])
        timeout_ms = None if self._ends is None else _QUIET_MS
        while self._left and most != 0:
            count = 0
            try:
                count = await self._render(text, most, timeout_ms)
                if self._ends is not None:
                    await self._drop_done(self._ends)
            except OffsetOutOfRange as error:
                await self._move_to_start(error)
            if count:
                most = None if most is None else most - count
                yield count

    async def _render(self, text: RecordText, most: int | None, timeout_ms: int | None) -> int:
        """Returns the number of records written."""
        rendered = await self._consumer.render(text, timeout_ms=timeout_ms, max_records=most, ends=self._ends)
        return 0 if rendered is None else rendered.record_count

    async def _drop_done(self, ends: Offsets) -> None:
        for partition in sorted(self._left):
            position, end = await self._consumer.position(partition), ends[partition]
            if position >= end or self._is_empty_up_to(partition, end):
                position = end
                self._left.discard(partition)
                self._consumer.pause(partition)
            self._passed[partition] = position - self._starts[partition]

    def _is_empty_up_to(self, partition: TopicPartition, end: int) -> bool:
        """The position passes markers, but not a gap that compaction has left at the end of a log."""
        consumer = self._consumer
        is_committed = consumer.settings.isolation_level == "read_committed"
        readable_end = consumer.last_stable_offset(partition) if is_committed else consumer.highwater(partition)
        return readable_end is not None and readable_end >= end and consumer.lag(partition) == 0

    async def _move_to_start(self, error: OffsetOutOfRange) -> None:
        """Continues at the log start if retention has deleted records before they were read. If that is past the end,
        nothing is left."""
        starts = await self._consumer.beginning_offsets(list(error.offsets))
        for partition, position in error.offsets.items():
            if position is None or starts[partition] <= position:
                raise error
            self._consumer.seek(partition, starts[partition])
            self._moved(partition, position, starts[partition])


async def read_later_partitions(consumer: Consumer, topics: Sequence[str]) -> None:
    """Adds new partitions of the topics, and new topics that match a pattern, to a consumer, from their start. Does not
    return.

    Polls every `metadata_max_age_ms`, like Kafka's consumers.
    """
    while True:
        await asyncio.sleep(consumer.settings.metadata_max_age_ms / 1000)
        try:
            names = [topic for topic in topics if not is_pattern(topic)]
            if len(names) < len(topics):
                names += [name for name in await consumer.topics() if matches_any(name, topics)]
            known = {
                TopicPartition(name, number) for name in set(names) for number in await consumer.partitions_for(name)
            }
        except ClientError:
            # The reader will run into the same error, and report it.
            continue
        read = consumer.assignment()
        if known - read:
            consumer.assign(known | read)
            for partition in known - read:
                consumer.seek(partition, 0)
