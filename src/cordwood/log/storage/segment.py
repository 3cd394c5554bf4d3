"""A segment: a stretch of the log in one file, with its indexes."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cordwood.log.files import CORRUPT, LOG, OFFSET_INDEX, SEGMENT_FILES, TIME_INDEX, TXN_INDEX, file_name
from cordwood.log.idempotence.producers import CompletedTxn
from cordwood.runtime.disk import Buffer, File, FileRange
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.record import CorruptBatch
from cordwood.wire.records import decode_batch

from . import batches
from .index import MAX_RELATIVE_OFFSET, CorruptIndex, Index, OffsetIndex, Place, TimeIndex, TxnIndex

logger = logging.getLogger(__name__)

# Number of recent batches whose positions are cached: a reader at the end finds its next batch without reading the
# file.
_RECENT_BATCHES = 4


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Segment:
    """Offsets from `base_offset` up. Only the last segment of a log is appended to; the others do not change."""

    __slots__ = (
        "_bytes_since_index",
        "_disk",
        "_first_timestamp",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_recent",
        "base_offset",
        "created_ms",
        "file",
        "has_file",
        "has_index_files",
        "offset_index",
        "place",
        "roll_jitter_ms",
        "stage",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        place: Place,
        base_offset: int,
        sizes: Mapping[str, int],
        now_ms: int,
        roll_jitter_ms: int = 0,
        stage: str = "",
    ) -> None:
        """A segment whose files exist; `sizes` has their bytes by kind (`.log`, `.index` …)."""
        self.place = place
        self._disk = place.disk
        self.base_offset = base_offset
        self.stage = stage
        self.created_ms = now_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.file: File = place.disk.open(self.path(LOG), sizes[LOG])
        self.offset_index = OffsetIndex(place, base_offset, sizes.get(OFFSET_INDEX, 0), stage)
        self.time_index = TimeIndex(place, base_offset, sizes.get(TIME_INDEX, 0), stage)
        self.txn_index = TxnIndex(place, base_offset, sizes.get(TXN_INDEX, 0), stage)
        # The first segment of a new log gets its file with its first batch (see `creation`).
        self.has_file = True
        # An empty segment may lack them. Creating files is the most expensive part of creating a partition.
        self.has_index_files = OFFSET_INDEX in sizes and TIME_INDEX in sizes
        self._bytes_since_index = 0
        # The newest timestamp so far and its batch's last offset; None until the time index was read.
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = -1
        # The timestamp of the first batch; None until it was read or written. Time-based rolling starts from it.
        self._first_timestamp: int | None = None
        # The most recent batches, by position.
        self._recent: deque[tuple[int, BatchHeader]] = deque(maxlen=_RECENT_BATCHES)

    @classmethod
    def create(cls, place: Place, base_offset: int, now_ms: int, jitter_ms: int = 0, stage: str = "") -> "Segment":
        place.disk.create(f"{place.directory}/{file_name(base_offset, LOG, stage)}").close()
        return cls(place, base_offset, {LOG: 0}, now_ms, jitter_ms, stage)

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, {self.size} bytes)"

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def indexes(self) -> tuple[Index, ...]:
        return (self.offset_index, self.time_index, self.txn_index)

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp so far; -1 if there is none."""
        if self._max_timestamp is None:
            self._max_timestamp, self._offset_of_max_timestamp = self._last_time_entry()
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch with the newest record."""
        return self._offset_of_max_timestamp if self.max_timestamp >= 0 else self.base_offset

    def last_timestamp(self) -> int:
        """The newest timestamp of the last batch, read from the log itself; -1 if it has none or is damaged."""
        try:
            last = _last_header(self._headers_from(*self.offset_index.last))
        except (CorruptIndex, CorruptBatch):
            return -1
        return -1 if last is None else last.max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The timestamp that retention uses: the newest record's, or the file's age if no record has a timestamp, or if
        both the segment and its time index are damaged."""
        try:
            timestamp = self.max_timestamp
        except CorruptBatch:
            timestamp = -1
        if timestamp >= 0:
            return timestamp
        return self._disk.modified_ms(self.file.path) if self.has_file else self.created_ms

    def path(self, kind: str) -> str:
        return f"{self.place.directory}/{file_name(self.base_offset, kind, self.stage)}"

    # Writing

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Writes batches with final offsets; `headers` are theirs, in order."""
        position = self.file.size
        if position == 0:
            self._begin(headers[0])
        self.file.append(data)
        for header in headers:
            self.index_batch(header, position)
            self._recent.append((position, header))
            position += header.size

    def append_batch(self, data: Buffer, header: BatchHeader) -> None:
        """Like `append`, for one batch: a leader's common case."""
        position = self.file.size
        if position == 0:
            self._begin(header)
        self.file.append(data)
        self.index_batch(header, position)
        self._recent.append((position, header))

    def _begin(self, first: BatchHeader) -> None:
        self._first_timestamp = first.max_timestamp
        if not self.has_index_files:
            self.create_index_files()

    def index_batch(self, header: BatchHeader, position: int) -> None:
        """Records a batch at a position: the next after the one recorded last."""
        youngest = self._max_timestamp
        if youngest is None:
            youngest = self.max_timestamp
        if header.max_timestamp > youngest:
            self._max_timestamp = youngest = header.max_timestamp
            self._offset_of_max_timestamp = header.last_offset
        if self._bytes_since_index > self.place.index_interval_bytes:
            self.offset_index.append(header.last_offset, position)
            self.time_index.append(youngest, self.offset_of_max_timestamp)
            self._bytes_since_index = 0
        self._bytes_since_index += header.size

    def note_aborted(self, txn: CompletedTxn, last_stable_offset: int) -> None:
        self.txn_index.append(txn.producer_id, txn.first_offset, txn.last_offset, last_stable_offset)

    @property
    def last_acceptable_offset(self) -> int:
        """Indexes hold offsets relative to the base, in 32 bits."""
        return self.base_offset + MAX_RELATIVE_OFFSET

    def accepts_offset(self, offset: int) -> bool:
        return self.base_offset <= offset <= self.last_acceptable_offset

    def index_room(self, max_bytes: int) -> int:
        """Number of entries that the indexes still take, if each is limited to this many bytes."""
        return min(self.offset_index.room(max_bytes), self.time_index.room(max_bytes))

    def seal(self) -> None:
        """Completes the segment: writes its indexes, the time index with the final timestamp."""
        self._recent.clear()
        self.time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        for index in self.indexes:
            index.seal()

    def write_indexes(self) -> None:
        for index in self.indexes:
            index.write()

    def create_index_files(self) -> None:
        for index in (self.offset_index, self.time_index):
            self._disk.create(index.path).close()
        self.has_index_files = True

    def index_files(self) -> list[File]:
        """The index files with all their entries, to be synced and closed."""
        if not self.has_index_files:
            return []
        self.write_indexes()
        return [index.file() for index in self.indexes if index is not self.txn_index or len(index)]

    def truncate_to(self, offset: int) -> None:
        """Removes `offset`, where a batch begins, and everything above it."""
        self._recent.clear()
        found = self.locate(offset)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.truncate_to(offset)
        if found is not None:
            self.file.truncate(found[0])
        self._bytes_since_index = 0
        self._first_timestamp = None
        self._max_timestamp = None
        self.load_max_timestamp()

    def set_stage(self, stage: str) -> None:
        """Renames all files: `.cleaned` to `.swap` to final, or to `.deleted`."""
        for kind in SEGMENT_FILES:
            new = f"{self.place.directory}/{file_name(self.base_offset, kind, stage)}"
            if kind == LOG:
                self.file.rename(new)
            elif self.txn_index.is_stored if kind == TXN_INDEX else self.has_index_files:
                self._disk.rename(self.path(kind), new)
        self.stage = stage
        for index in self.indexes:
            index.stage = stage

    def forget(self) -> None:
        for index in self.indexes:
            index.forget()

    def close(self) -> None:
        self.file.close()

    def discard(self) -> None:
        """The files are being removed, or moved with their directory: later reads raise FileGone."""
        self.file.discard()

    def remove(self) -> None:
        """The second step of deletion."""
        self.discard()
        for kind in SEGMENT_FILES:
            self._disk.remove(self.path(kind))

    def keep_as_corrupt(self, position: int, *, sync: bool = True) -> str:
        """Copies the bytes from `position` on beside the segment, so that truncating loses nothing."""
        path = self._corrupt_path()
        copy = self._disk.create(path)
        while position < self.file.size:
            data = self.file.read(position, 1 << 20)
            copy.append(data)
            position += len(data)
        if sync:
            copy.sync()
        copy.close()
        return path

    def become_corrupt(self) -> None:
        """The segment is no longer part of the log; its records are kept beside it."""
        if self.size:
            self.file.rename(self._corrupt_path())
        self.discard()
        for kind in SEGMENT_FILES:
            self._disk.remove(self.path(kind))

    def _corrupt_path(self) -> str:
        number, path = 0, self.path(LOG) + CORRUPT
        while self._disk.exists(path):
            number += 1
            path = f"{self.path(LOG)}{CORRUPT}.{number}"
        return path

    # Reading

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch that contains `offset`, or of the next one; None past the end."""
        for recent in self._recent:
            if recent[1].base_offset == offset:
                return recent
        try:
            return self._locate(offset)
        except CorruptIndex as error:
            # The log is authoritative; a CorruptBatch means that the log itself is damaged.
            logger.warning("Rebuilding the indexes of %s: %s", self.file.path, error)
            self.rebuild_indexes()
            return self._locate(offset)

    def _locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        for position, header in self._headers_from(*self.offset_index.at_or_below(offset)):
            if header.last_offset >= offset:
                return position, header
        return None

    def _headers_from(self, indexed_offset: int, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from an index entry on; raises CorruptIndex if the entry does not point to its batch."""
        headers = batches.headers(self.file, start, self.file.size)
        if start == 0:
            return headers
        try:
            position, first = next(headers, (start, None))
        except CorruptBatch as error:
            raise CorruptIndex(f"there is no batch at position {start}: {error}") from error
        if first is None or not self.base_offset <= first.last_offset <= indexed_offset:
            raise CorruptIndex(f"offset {indexed_offset} is not at position {start}")
        return chain([(position, first)], headers)

    def next_offset_at(self, start: int, end: int) -> int:
        """The offset after the last batch that ends at or before position `end`; a batch begins at `start`."""
        indexed_offset, position = self.offset_index.at_or_below_position(end)
        if position <= start:
            headers = batches.headers(self.file, start, self.file.size)
        else:
            headers = self._headers_from(indexed_offset, position)
        next_offset = self.base_offset
        for position, header in headers:
            if position + header.size > end:
                return header.base_offset
            next_offset = header.next_offset
        return next_offset

    def range(self, position: int, length: int) -> FileRange:
        return FileRange(self.file, position, length)

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        return self.file.read(position, header.size)

    def next_offset(self) -> int:
        """The offset after the last batch, searched from the last index entry on."""
        try:
            last = _last_header(self._headers_from(*self.offset_index.last))
        except CorruptIndex as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.file.path, error)
            last = self.rebuild_indexes()
        return self.base_offset if last is None else last.next_offset

    def first_timestamp(self) -> int:
        """The timestamp of the first batch; -1 if there is no batch or no timestamp."""
        if self._first_timestamp is None:
            first = next(batches.headers(self.file, 0, self.file.size), None)
            if first is None:
                return -1
            self._first_timestamp = first[1].max_timestamp
        return self._first_timestamp

    def find_timestamp(self, timestamp: int, starting_offset: int) -> TimestampedOffset | None:
        """The first record at or after `starting_offset` that is not older than `timestamp`."""
        start_offset = max(self._time_lookup(timestamp), starting_offset)
        start = self.locate(start_offset)
        if start is None:
            return None
        for position, header in batches.headers(self.file, start[0], self.file.size):
            if header.max_timestamp < timestamp or header.last_offset < starting_offset:
                continue
            for record in decode_batch(self.read_batch(position, header)):
                if record.timestamp >= timestamp and record.offset >= starting_offset:
                    return TimestampedOffset(record.timestamp, record.offset, header.leader_epoch)
        return None

    def find_max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the newest timestamp."""
        youngest = self.max_timestamp
        if youngest < 0:
            return None
        start = self.locate(self.offset_of_max_timestamp)
        for position, header in batches.headers(self.file, start[0] if start else 0, self.file.size):
            if header.max_timestamp == youngest:
                for record in decode_batch(self.read_batch(position, header)):
                    if record.timestamp == youngest:
                        return TimestampedOffset(youngest, record.offset, header.leader_epoch)
        return None

    # Repairing

    def rebuild_indexes(self) -> BatchHeader | None:
        """Rebuilds the offset and time indexes from the headers; returns the last header.

        Raises CorruptBatch if the log is damaged, and keeps the indexes: they lead to intact data beyond the damage.
        """
        last = _last_header(batches.headers(self.file, 0, self.file.size))
        self.reset_indexes()
        for position, header in batches.headers(self.file, 0, self.file.size):
            self.index_batch(header, position)
        self.time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        self.write_indexes()
        return last

    def reset_indexes(self, *, with_txns: bool = False) -> None:
        if self.size or self.has_index_files:
            self.offset_index.clear()
            self.time_index.clear()
            self.has_index_files = True
        if with_txns and (self.size or self.txn_index.is_stored):
            self.txn_index.clear()
        self._max_timestamp = -1
        self._offset_of_max_timestamp = -1
        self._first_timestamp = None
        self._bytes_since_index = 0

    def load_max_timestamp(self) -> None:
        """Continues from the last time index entry: after a truncation there may be newer records behind it."""
        timestamp, offset = self._last_time_entry()
        start = self.locate(offset)
        for _, header in batches.headers(self.file, start[0] if start else self.file.size, self.file.size):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self._max_timestamp, self._offset_of_max_timestamp = timestamp, offset

    def _last_time_entry(self) -> tuple[int, int]:
        try:
            return self.time_index.last
        except CorruptIndex as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.file.path, error)
            self.rebuild_indexes()
            return self.time_index.last

    def _time_lookup(self, timestamp: int) -> int:
        try:
            return self.time_index.offset_at_or_below(timestamp)
        except CorruptIndex as error:
            logger.warning("Rebuilding the indexes of %s: %s", self.file.path, error)
            self.rebuild_indexes()
            return self.time_index.offset_at_or_below(timestamp)


def _last_header(headers: Iterable[tuple[int, BatchHeader]]) -> BatchHeader | None:
    last = deque(headers, maxlen=1)
    return last[0][1] if last else None
