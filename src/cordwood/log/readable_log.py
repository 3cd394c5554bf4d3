"""Reading one partition's log: batches from an offset on, offsets by time or epoch, aborted transactions."""

import logging

from cordwood.log.idempotence.producers import Producers
from cordwood.log.idempotence.replay import load_producers, rebuild_txn_index
from cordwood.log.idempotence.snapshots import ProducerSnapshots
from cordwood.log.storage.index import AbortedTxn, CorruptIndex, Place
from cordwood.log.storage.segment import Segment, TimestampedOffset
from cordwood.log.storage.segments import Segments
from cordwood.runtime.disk import FileRange
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import CorruptBatch

from .epochs import LeaderEpochs

logger = logging.getLogger(__name__)


class ReadableLog:
    """A log's start and end, segments, epochs and producers, as needed for reads. `Log` changes them."""

    def __init__(
        self,
        place: Place,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: Producers,
        snapshots: ProducerSnapshots,
        start_offset: int,
        end_offset: int,
    ) -> None:
        self.place = place
        self.disk = place.disk
        self.directory = place.directory
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.high_watermark = start_offset
        # The last computed end of a read up to an offset: (offset, segment, position).
        self._bound: tuple[int, Segment, int] | None = None

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last batch; -1 if unknown."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below it is decided: the limit for read_committed consumers."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.start_offset), self.high_watermark)

    def read(self, offset: int, max_bytes: int, max_offset: int, *, min_one_batch: bool = True) -> FileRange | None:
        """Returns batches from the one that contains `offset` on, below `max_offset`; None if there is nothing to read.
        Raises Refusal if `offset` is out of range, or if the log is damaged.

        The last batch may be cut short by `max_bytes`, as Kafka's clients expect. The first never is: if it is larger,
        it is returned whole with `min_one_batch`, and not at all without.
        """
        self._check_readable(offset)
        if offset >= max_offset:
            return None
        segment = self.segments.floor(offset)
        try:
            while segment is not None:
                found = segment.locate(offset)
                if found is not None:
                    position, header = found
                    if header.size > max_bytes:
                        if not min_one_batch:
                            return None
                        max_bytes = header.size
                    length = min(self._bound_position(segment, max_offset) - position, max_bytes)
                    return segment.range(position, length) if length > 0 else None
                # The rest of this segment is empty because of compaction or a gap.
                segment = self.segments.after(segment)
        except CorruptBatch as error:
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"{segment} is damaged: {error}") from error
        return None

    def next_offset_of(self, found: FileRange, offset: int, max_offset: int) -> int:
        """The offset after the last whole batch that `read` found from `offset` on, below `max_offset`. Reads few
        headers: none if the range was not cut short by a byte limit."""
        segment = self.segments.floor(offset)
        while segment is not None and segment.file is not found.file:
            segment = self.segments.after(segment)
        if segment is None:
            # Compaction has replaced it since.
            return offset
        end = found.position + found.length
        if end == self._bound_position(segment, max_offset):
            following = self.segments.after(segment)
            return max_offset if following is None else min(max_offset, following.base_offset)
        return max(offset, segment.next_offset_at(found.position, end))

    def aborted_txns(self, segment_range: FileRange, offset: int) -> list[AbortedTxn]:
        """The aborted transactions that a read_committed consumer must skip in a range returned by `read`."""
        if all(segment.txn_index.is_empty for segment in self.segments.from_floor(offset)):
            return []
        segment = self.segments.floor(offset)
        while segment is not None and segment.file is not segment_range.file:
            segment = self.segments.after(segment)
        if segment is None:
            # Compaction has replaced it since.
            return self.aborted_txns_between(offset, self.end_offset)
        upper_bound = segment.offset_index.upper_bound(segment_range.position + segment_range.length)
        if upper_bound is None:
            following = self.segments.after(segment)
            upper_bound = self.end_offset if following is None else following.base_offset
        return self.aborted_txns_between(offset, upper_bound)

    def aborted_txns_between(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for segment in self.segments.from_floor(start_offset):
            if not segment.txn_index.is_empty and self._collect_aborted(segment, start_offset, end_offset, found):
                break
        found.sort(key=lambda txn: txn.first_offset)
        return found

    def _collect_aborted(self, segment: Segment, start_offset: int, end_offset: int, found: list[AbortedTxn]) -> bool:
        try:
            return segment.txn_index.collect(start_offset, end_offset, found)
        except CorruptIndex as error:
            # Without it a read_committed consumer would see aborted records.
            logger.warning("Rebuilding the transaction index of %s: %s", segment.file.path, error)
            rebuild_txn_index(segment, self._producers_at(segment.base_offset))
            return segment.txn_index.collect(start_offset, end_offset, found)

    def _producers_at(self, offset: int, now_ms: int = 0) -> Producers:
        return load_producers(
            self.segments,
            self.snapshots,
            self.producers.expiration_ms,
            start_offset=self.start_offset,
            end_offset=offset,
            now_ms=now_ms,
        )

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record not older than `timestamp`; control records count, as in Kafka."""
        for segment in self.segments:
            if segment.largest_timestamp >= timestamp:
                # If that record is below the log start offset, Kafka finds nothing either, and stops searching.
                return segment.find_timestamp(timestamp, self.start_offset)
        return None

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        return max(self.segments, key=lambda segment: segment.max_timestamp).find_max_timestamp()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def _files_changed(self) -> None:
        """Called by the owner when batches may have moved to other positions."""
        self._bound = None

    def _check_readable(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within [{self.start_offset}, {self.end_offset}] of {self.directory}",
            )

    def _bound_position(self, segment: Segment, max_offset: int) -> int:
        """The position in `segment` where the batch of `max_offset` begins."""
        if max_offset >= self.end_offset:
            return segment.size
        following = self.segments.after(segment)
        if following is not None and following.base_offset <= max_offset:
            return segment.size
        if self._bound is None or self._bound[0] != max_offset or self._bound[1] is not segment:
            found = segment.locate(max_offset)
            self._bound = (max_offset, segment, segment.size if found is None else found[0])
        return self._bound[2]
