"""Fetched records of all partitions that the application has not consumed yet, in delivery order."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, NamedTuple

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.fetches.records import FetchedRecords
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.consumer.subscription import Subscription
from cordwood.wire.record import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from cordwood.wire.record_text import RecordText

MAX_OFFSET = 2**63 - 1


class Rendered(NamedTuple):
    """Records of a partition, rendered as text."""

    partition: TopicPartition
    first_offset: int
    """The partition's previous position."""
    record_count: int


class Buffers:
    """`drained` is called when there is room for more, `taken` with the number of records consumed."""

    def __init__(
        self, subscription: Subscription, *, drained: Callable[[], None], taken: Callable[[int], None]
    ) -> None:
        self.total_bytes = 0
        self._subscription = subscription
        self._drained = drained
        self._taken = taken
        # A partition that had its turn moves to the end.
        self._partitions: dict[TopicPartition, PartitionBuffer] = {}

    def add(self, fetched: FetchedRecords) -> None:
        buffer = self._partitions.get(fetched.partition)
        if buffer is None:
            buffer = self._partitions[fetched.partition] = PartitionBuffer()
        buffer.fetched.append(fetched)
        buffer.size += fetched.size
        self.total_bytes += fetched.size

    def bytes_of(self, partition: TopicPartition) -> int:
        buffer = self._partitions.get(partition)
        return 0 if buffer is None else buffer.size

    def discard(self, partition: TopicPartition) -> None:
        buffer = self._partitions.pop(partition, None)
        if buffer is not None:
            self.total_bytes -= buffer.size
            buffer.stop_handing()

    def stop_handing(self) -> None:
        """Ends the iteration over single records, whose rest may no longer be valid."""
        for buffer in self._partitions.values():
            buffer.stop_handing()

    # ---- consumption

    def take(
        self, partitions: Collection[TopicPartition], most: int, *, of_one: bool = False
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Takes at most this many records of these partitions, of all, or of one of them, and marks them as consumed.

        Raises an error of the next record if there are none before it.
        """
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        for partition, state in self._readable(partitions):
            if most <= 0 or (of_one and taken):
                break
            try:
                records = self._take_of(partition, state, most)
            except Exception:
                if taken:
                    # Raised next time.
                    return taken
                raise
            if records:
                taken[partition] = records
                most -= len(records)
        return taken

    def _take_of(self, partition: TopicPartition, state: PartitionState, most: int) -> list[ConsumerRecord]:
        buffer = self._partitions[partition]
        records: list[ConsumerRecord] = []
        while len(records) < most and (buffer.handing is not None or buffer.fetched):
            if buffer.handing is not None:
                taken = list(islice(buffer.handing, most - len(records)))
                if taken:
                    state.advance(taken[-1].offset + 1, taken[-1].leader_epoch)
                if len(records) + len(taken) < most:
                    self._end_handing(partition, state)
            else:
                try:
                    taken = buffer.fetched[0].take(most - len(records))
                except Exception:
                    if records:
                        # Raised next time.
                        return records
                    raise
                self._taken(len(taken))
                self._advance(partition, state)
            records = records + taken if records else taken
        return records

    def hand(
        self, partitions: Collection[TopicPartition], most: int
    ) -> tuple[PartitionState, Iterator[ConsumerRecord]] | None:
        """Returns some records of one partition for iteration; the caller updates the partition's state for each.

        The iterator ends early if its rest is no longer valid, or paused.
        """
        for partition, state in self._readable(partitions):
            buffer = self._partitions[partition]
            while buffer.handing is not None or buffer.fetched:
                if buffer.handing is None:
                    records = buffer.fetched[0].take(most)
                    self._taken(len(records))
                    if not records:
                        self._advance(partition, state)
                        continue
                    buffer.handing = iter(records)
                elif length_hint(buffer.handing) == 0:
                    self._end_handing(partition, state)
                    continue
                return state, buffer.handing
        return None

    def render(
        self, partitions: Collection[TopicPartition], text: "RecordText", most: int, ends: Mapping[TopicPartition, int]
    ) -> Rendered | None:
        """Renders at most this many records of one fetch of a partition, up to the given end."""
        for partition, state in self._readable(partitions):
            buffer = self._partitions[partition]
            assert buffer.handing is None, "records are rendered, or iterated over"
            if buffer.fetched:
                first = state.offset
                count = buffer.fetched[0].render(text, most, ends.get(partition, MAX_OFFSET))
                self._taken(count)
                self._advance(partition, state)
                return Rendered(partition, first, count)
        return None

    def arrow(
        self, partitions: Collection[TopicPartition], *, headers: bool
    ) -> "tuple[TopicPartition, pa.RecordBatch] | None":
        """Returns everything from one fetch of a partition."""
        for partition, state in self._readable(partitions):
            buffer = self._partitions[partition]
            if buffer.handing is not None:
                buffer.stop_handing()
                buffer.handing = None
                buffer.fetched[0].rewind(state.offset)
            while buffer.fetched:
                batch = buffer.fetched[0].arrow(headers=headers)
                self._taken(batch.num_rows)
                self._advance(partition, state)
                if batch.num_rows:
                    return partition, batch
        return None

    def _readable(self, partitions: Collection[TopicPartition]) -> list[tuple[TopicPartition, PartitionState]]:
        states = self._subscription.states
        return [
            (partition, state)
            for partition in (partitions or self._partitions)
            if partition in self._partitions and (state := states.get(partition)) is not None and state.is_consumable
        ]

    def _end_handing(self, partition: TopicPartition, state: PartitionState) -> None:
        self._partitions[partition].handing = None
        self._advance(partition, state)

    def _advance(self, partition: TopicPartition, state: PartitionState) -> None:
        """Removes consumed records; moves on to the next fetch, and to another partition, if that was all."""
        buffer = self._partitions[partition]
        fetched = buffer.fetched[0]
        state.advance(fetched.offset, state.epoch if fetched.epoch is None else fetched.epoch)
        if fetched.is_drained:
            buffer.fetched.popleft()
            buffer.size -= fetched.size
            self.total_bytes -= fetched.size
            del self._partitions[partition]
            if buffer.fetched:
                self._partitions[partition] = buffer
            self._drained()


class PartitionBuffer:
    __slots__ = ("fetched", "handing", "size")

    def __init__(self) -> None:
        self.fetched: deque[FetchedRecords] = deque()
        self.size = 0
        self.handing: Iterator[ConsumerRecord] | None = None
        """The decoded records of the first of `fetched` that are being iterated over."""

    def stop_handing(self) -> None:
        """Keeps the rest for the next read; the previous iterator ends."""
        if self.handing is not None:
            self.handing = iter(list(self.handing))
