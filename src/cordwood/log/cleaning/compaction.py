"""Compacts one log: a pure job over its segments, for a separate thread.

A pass has two parts. The first records the last offset of each key in the dirty part of the log, as far as the keys fit
into the offset map. The second copies the log from its first segment up to there, without superseded records, into
`.cleaned` segments. They are complete and on stable storage when the job returns; the owner then swaps them in
(`cleaner`).

Kafka's rules decide what is kept and for how long; docs/compaction.md explains them.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cordwood.log.config import LogConfig
from cordwood.log.files import CLEANED, LOG, OFFSET_INDEX, SEGMENT_FILES, TIME_INDEX, TXN_INDEX, file_name
from cordwood.log.idempotence.markers import end_txn_of
from cordwood.log.storage import batches
from cordwood.log.storage.index import MAX_RELATIVE_OFFSET, AbortedTxn, IndexCache, Place
from cordwood.log.storage.segment import Segment
from cordwood.runtime.disk import Buffer, Disk
from cordwood.wire.batch_header import BatchHeader, check_crc, read_header
from cordwood.wire.records import (
    DECOMPRESSED_LIMIT_BYTES,
    clean_batch,
    decode_batch,
    empty_batch,
    encode_batch,
    record_keys,
)

from .cleaned_txns import Transactions
from .offset_map import OffsetMap
from .throttle import Throttle

logger = logging.getLogger(__name__)


class CompactionStopped(Exception):
    """The owner needs the log for something else; nothing was changed."""


class SegmentGone(Exception):
    """A segment was deleted during the job, so its result is useless."""


class DedupeBufferTooSmall(Exception):
    """Not even the first dirty batch fits: without more memory no pass would make progress."""


class Source(NamedTuple):
    """A segment as of when the job was planned, or one that the job has created."""

    base_offset: int
    # Where the next segment begins.
    end_offset: int
    # The bytes of its files, by kind.
    sizes: Mapping[str, int]

    @property
    def size(self) -> int:
        return self.sizes[LOG]


class LastBatch(NamedTuple):
    """The last batch of a producer whose state is still kept."""

    # None if the producer has only a marker in its epoch.
    last_offset: int | None
    producer_epoch: int


class Task(NamedTuple):
    """The job's view of the log as plain values, because the log continues to change."""

    directory: str
    config: LogConfig
    # In order, without gaps, all below the first uncleanable offset.
    sources: tuple[Source, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    # Those with data or a marker in the sources.
    aborted: tuple[AbortedTxn, ...]
    last_batches: Mapping[int, LastBatch]
    now_ms: int


class Resources(NamedTuple):
    """Resources of one job."""

    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    # For reading and writing, each.
    io_buffer_bytes: int = 256 * 1024


@dataclass(slots=True)
class CompactionStats:
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    # Dropped because nothing can supersede them. A compacted topic accepts none, but its policy may have changed.
    keyless_records: int = 0
    map_utilization: float = 0.0


class Compacted(NamedTuple):
    """The log is clean up to `end_offset` once `cleaned` replace the first `replaced` sources."""

    end_offset: int
    replaced: int
    cleaned: tuple[Source, ...]
    stats: CompactionStats


class Compaction:
    def __init__(self, disk: Disk, task: Task, resources: Resources, throttle: Throttle) -> None:
        self._disk = disk
        self._task = task
        self._resources = resources
        self._throttle = throttle
        self._place = Place(disk, task.directory, IndexCache(), task.config.index_interval_bytes)
        self._stats = CompactionStats()

    def run(self) -> Compacted:
        """Raises CorruptBatch or InvalidRecord if the log is damaged; after any exception the log is unchanged."""
        task, stats = self._task, self._stats
        offset_map, end_offset = self._map_keys()
        stats.map_utilization = offset_map.count / offset_map.slots
        sources = [source for source in task.sources if source.base_offset < end_offset]
        copying = _Copying(task, offset_map, end_offset, sources[-1].end_offset, stats)
        try:
            cleaned = [self._clean_group(group, copying) for group in group_segments(sources, task.config)]
        except Exception:
            self.remove_cleaned()
            raise
        finally:
            # A failed job has open files, which would occupy their space until the process ends.
            self._disk.close()
        return Compacted(end_offset, len(sources), tuple(cleaned), stats)

    def stop(self) -> None:
        """Callable from any thread: `run` soon raises CompactionStopped."""
        self._throttle.is_stopped = True

    def remove_cleaned(self) -> None:
        """Removes the files of a job that failed, or whose result is no longer needed."""
        if self._disk.failure is None:
            remove_cleaned(self._disk, self._task.directory, (source.base_offset for source in self._task.sources))

    # First part

    def _map_keys(self) -> tuple[OffsetMap, int]:
        """Returns the last offset of each key from the first dirty offset on, and the offset up to which the keys
        fit."""
        task, resources = self._task, self._resources
        start_offset = end_offset = task.first_dirty_offset
        offset_map = OffsetMap(
            resources.dedupe_buffer_bytes, resources.load_factor, task.first_uncleanable_offset - start_offset
        )
        transactions = Transactions(txn for txn in task.aborted if txn.last_offset >= start_offset)
        for source in task.sources:
            if source.end_offset <= start_offset:
                continue
            for header, data in self._batches(source):
                if header.last_offset < start_offset:
                    continue
                if header.is_control:
                    transactions.on_marker(header, end_txn_of(data, header))
                elif not transactions.is_aborted(header):
                    keys = record_keys(data, 0, header, limit=DECOMPRESSED_LIMIT_BYTES)
                    if not offset_map.put_all(keys, start_offset):
                        if end_offset == start_offset:
                            raise DedupeBufferTooSmall(
                                f"the {len(keys)} keys of the batch at offset {header.base_offset} do not fit into the "
                                f"{offset_map.capacity} that the dedupe buffer takes: log.cleaner.dedupe.buffer.size, "
                                f"or log.cleaner.io.buffer.load.factor, must be larger"
                            )
                        return offset_map, end_offset
                end_offset = header.next_offset
            # Offsets at the end of a segment may be missing.
            end_offset = source.end_offset
        return offset_map, end_offset

    # Second part

    def _clean_group(self, group: Sequence[Source], copying: "_Copying") -> Source:
        """Copies segments into one, named after the first."""
        task = self._task
        self._check_there(group[0])
        segment = Segment.create(self._place, group[0].base_offset, task.now_ms, stage=CLEANED)
        # Possibly nothing of the copy is left, but all files are swapped in.
        segment.create_index_files()
        output = _Output(segment, self._resources.io_buffer_bytes, self._throttle)
        for source in group:
            for header, data in self._batches(source):
                check_crc(data, header)
                cleaned = copying.clean(header, data, segment)
                if cleaned:
                    output.add(cleaned)
        output.finish()
        self._stats.bytes_written += segment.size
        segment.seal()
        files = [segment.file, *segment.index_files()]
        self._disk.sync_job(files)()
        for file in files:
            file.close()
        segment.forget()
        return source_of(segment, group[-1].end_offset)

    def _batches(self, source: Source) -> Iterator[tuple[BatchHeader, memoryview]]:
        self._check_there(source)
        file = self._disk.open(self._path(source), source.size)
        try:
            for _, header, data in batches.whole_batches(file, 0, source.size, self._resources.io_buffer_bytes):
                if self._throttle.is_stopped:
                    raise CompactionStopped(self._task.directory)
                self._throttle.spend(header.size)
                yield header, data
        finally:
            file.close()

    def _check_there(self, source: Source) -> None:
        """Checks first, because opening a missing file would count as a disk failure."""
        if not self._disk.exists(self._path(source)):
            raise SegmentGone(self._path(source))

    def _path(self, source: Source) -> str:
        return f"{self._task.directory}/{file_name(source.base_offset, LOG)}"


class _Copying:
    """Decides about each batch, in log order."""

    def __init__(
        self, task: Task, offset_map: OffsetMap, end_offset: int, copied_end: int, stats: CompactionStats
    ) -> None:
        self._task = task
        self._map = offset_map
        self._end_offset = end_offset
        self._copied_end = copied_end
        self._stats = stats
        self._transactions = Transactions(task.aborted)
        self._horizon_ms = task.now_ms + task.config.delete_retention_ms

    def clean(self, header: BatchHeader, data: memoryview, cleaned: Segment) -> Buffer:
        """Returns the cleaned batch; empty if it is dropped. Aborted transactions that readers still need go into the
        index of the `cleaned` segment."""
        stats = self._stats
        stats.bytes_read += header.size
        marks_empty_transaction = False
        if header.is_control:
            marks_empty_transaction = self._end_transaction(header, data, cleaned)
            is_due = marks_empty_transaction and self._is_due(header)
            retained = bytearray(b"\0" if is_due else b"\1") * header.count
        elif self._transactions.is_aborted(header):
            retained = bytearray(header.count)
        else:
            keys = record_keys(data, 0, header, limit=DECOMPRESSED_LIMIT_BYTES)
            retained, keyless = self._map.retain(keys, self._end_offset, not self._is_due(header))
            stats.keyless_records += keyless
        stats.records_read += len(retained)
        stats.records_kept += len(retained) - retained.count(0)
        if header.magic < 2:
            return self._clean_legacy(header, data, retained)
        return clean_batch(
            data,
            0,
            header,
            retained,
            keep_empty=self._must_stay(header),
            marks_empty_transaction=marks_empty_transaction,
            delete_horizon_ms=self._horizon_ms,
            limit=DECOMPRESSED_LIMIT_BYTES,
        )

    def _end_transaction(self, header: BatchHeader, data: memoryview, cleaned: Segment) -> bool:
        ended = self._transactions.on_marker(header, end_txn_of(data, header))
        if ended.aborted is not None:
            _, producer_id, first_offset, last_offset, last_stable_offset = ended.aborted
            cleaned.txn_index.append(producer_id, first_offset, last_offset, last_stable_offset)
        return ended.is_empty

    def _is_due(self, header: BatchHeader) -> bool:
        """Tombstones and markers have been visible for delete.retention.ms."""
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._task.now_ms

    def _must_stay(self, header: BatchHeader) -> bool:
        """Keeps a batch even without records: for the offset that the next segment follows, or for its producer's
        sequence."""
        if header.next_offset == self._copied_end:
            return True
        last = self._task.last_batches.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _clean_legacy(self, header: BatchHeader, data: memoryview, retained: bytearray) -> Buffer:
        """Messages of magic 0 and 1 cannot store a delete horizon: those with tombstones become magic 2.

        Kafka uses the file's modification time instead, which it carries over from file to file.
        """
        if not any(retained):
            return empty_batch(header) if self._must_stay(header) else b""
        kept = [record for record, keep in zip(decode_batch(data), retained, strict=True) if keep]
        has_tombstones = any(record.value is None for record in kept)
        if all(retained) and not has_tombstones:
            return data
        return encode_batch(
            kept,
            codec=header.codec,
            log_append_time=header.max_timestamp if header.is_log_append_time else None,
            delete_horizon_ms=self._horizon_ms if has_tombstones else None,
        )


@dataclass(slots=True)
class _Output:
    """Buffers batches and appends them to the cleaned segment in large writes."""

    segment: Segment
    buffer_bytes: int
    throttle: Throttle
    pending: bytearray = field(default_factory=bytearray)
    headers: list[BatchHeader] = field(default_factory=list)

    def add(self, batch: Buffer) -> None:
        self.pending += batch
        self.headers.append(read_header(batch))
        if len(self.pending) >= self.buffer_bytes:
            self.finish()

    def finish(self) -> None:
        if self.headers:
            self.segment.append(self.pending, self.headers)
            self.throttle.spend(len(self.pending))
            self.pending, self.headers = bytearray(), []


def group_segments(sources: Iterable[Source], config: LogConfig) -> Iterator[list[Source]]:
    """Groups neighbours that fit into one segment even if nothing of them is dropped."""
    limits = {
        LOG: config.segment_bytes,
        OFFSET_INDEX: config.segment_index_bytes,
        TIME_INDEX: config.segment_index_bytes,
    }
    group: list[Source] = []
    sizes: Counter[str] = Counter()
    for source in sources:
        sizes.update(source.sizes)
        fits = all(sizes[kind] <= limit for kind, limit in limits.items())
        # An empty segment has no offsets that could be out of range.
        in_reach = not group or not source.size or source.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        if group and not (fits and in_reach):
            yield group
            group, sizes = [], Counter(source.sizes)
        group.append(source)
    if group:
        yield group


def source_of(segment: Segment, end_offset: int) -> Source:
    """A segment that no longer changes, with all its indexes in their files."""
    indexes = zip((OFFSET_INDEX, TIME_INDEX, TXN_INDEX), segment.indexes, strict=True)
    sizes = {kind: len(index) * index.ENTRY.size for kind, index in indexes}
    return Source(segment.base_offset, end_offset, {LOG: segment.size, **sizes})


def remove_cleaned(disk: Disk, directory: str, base_offsets: Iterable[int]) -> None:
    for base_offset in base_offsets:
        for kind in SEGMENT_FILES:
            disk.remove(f"{directory}/{file_name(base_offset, kind, CLEANED)}")
