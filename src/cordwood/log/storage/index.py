"""The indexes of a segment: offset to position, timestamp to offset (both sparse), and aborted transactions.

Entries of the active segment are kept in memory and written when the segment is flushed or sealed: anything beyond the
recovery point is rebuilt after a crash anyway. Indexes of old segments are loaded on demand into a bounded cache.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from cordwood.log.files import OFFSET_INDEX, TIME_INDEX, TXN_INDEX, file_name
from cordwood.runtime.disk import Disk, DiskError, File

MAX_RELATIVE_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a partition's files, and the state shared by its segments."""

    disk: Disk
    directory: str
    cache: "IndexCache"
    # A segment keeps the interval that it was created with.
    index_interval_bytes: int


class CorruptIndex(Exception):
    """The file does not match its segment; it is rebuilt from the log."""


class Index:
    """Base of all indexes: fixed-size entries, sorted, appended at the end."""

    KIND: ClassVar[str]
    ENTRY: ClassVar[struct.Struct]

    __slots__ = ("_cache", "_data", "_place", "_stored_bytes", "base_offset", "stage")

    def __init__(self, place: Place, base_offset: int, stored_bytes: int, stage: str = "") -> None:
        self._place = place
        self._cache = place.cache
        self.base_offset = base_offset
        self.stage = stage
        # Bytes of the file known to match `_data`.
        self._stored_bytes = stored_bytes
        self._data: bytearray | None = None if stored_bytes else bytearray()

    @property
    def path(self) -> str:
        return f"{self._place.directory}/{file_name(self.base_offset, self.KIND, self.stage)}"

    @property
    def data(self) -> bytearray:
        if self._data is None:
            self._load()
        else:
            self._cache.touch(self)
        assert self._data is not None
        return self._data

    def __len__(self) -> int:
        return (self._stored_bytes if self._data is None else len(self._data)) // self.ENTRY.size

    @property
    def is_stored(self) -> bool:
        """Returns whether the file has any entries."""
        return self._stored_bytes > 0

    @property
    def is_empty(self) -> bool:
        return not (self._stored_bytes if self._data is None else self._data)

    def is_sound(self) -> bool:
        """Returns whether the file, if it exists, is readable."""
        try:
            return self.data is not None
        except CorruptIndex:
            return False

    def room(self, max_bytes: int) -> int:
        """Number of entries that still fit within the limit (`segment.index.bytes`); 0 if it is exceeded."""
        return max(0, max_bytes // self.ENTRY.size - len(self))

    def write(self) -> None:
        """Appends the new entries to the file."""
        data = self._data
        if data is not None and len(data) > self._stored_bytes:
            file = self.file()
            file.append(memoryview(data)[self._stored_bytes :])
            file.close()
            self._stored_bytes = len(data)

    def seal(self) -> None:
        """The segment is no longer active: from now on the entries in memory are only a cache."""
        self.write()
        if self._data:
            self._cache.add(self, len(self._data))

    def unload(self) -> None:
        self.write()
        if self._stored_bytes:
            self._data = None

    def forget(self) -> None:
        """The file is being removed: it must no longer be cached or written."""
        self._cache.discard(self)

    def clear(self) -> None:
        """Empties the file, creating it if it is missing."""
        self._place.disk.create(self.path).close()
        self._stored_bytes = 0
        self._data = bytearray()

    def file(self) -> File:
        """The file, for appending and syncing."""
        return self._place.disk.open(self.path, self._stored_bytes)

    def _truncate_entries(self, count: int) -> None:
        size = count * self.ENTRY.size
        del self.data[size:]
        if self._stored_bytes > size:
            file = self.file()
            file.truncate(size)
            file.close()
            self._stored_bytes = size

    def _load(self) -> None:
        file = self.file()
        data = bytearray(file.read(0, self._stored_bytes))
        file.close()
        self._check(data)
        self._data = data
        self._cache.add(self, len(data))

    def _check(self, data: bytearray) -> None:
        """Raises CorruptIndex if the first or last entry is invalid; look-ups check the entries that they use."""
        size = self.ENTRY.size
        if len(data) % size:
            raise CorruptIndex(f"{self.path}: {len(data)} bytes are not a multiple of {size}")
        first, last = self.ENTRY.unpack_from(data), self.ENTRY.unpack_from(data, len(data) - size)
        if len(data) > size and not last[0] > first[0]:
            raise CorruptIndex(f"{self.path}: not sorted, or padded: it begins with {first} and ends with {last}")

    def _slot_at_or_below(self, key: int, field: int = 0) -> int:
        """Index of the last entry whose field is not above `key`, or -1."""
        data = self.data
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, len(data) // size
        while low < high:
            middle = (low + high) >> 1
            if unpack(data, middle * size)[field] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1


class OffsetIndex(Index):
    """(offset - base offset, position): the batch that ends with the offset starts at the position."""

    KIND = OFFSET_INDEX
    ENTRY = struct.Struct(">ii")
    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        data = self.data if self._data is None else self._data
        data += self.ENTRY.pack(offset - self.base_offset, position)

    def at_or_below(self, offset: int) -> tuple[int, int]:
        """The last entry at or below `offset`: (offset, position) from which to search."""
        slot = self._slot_at_or_below(offset - self.base_offset)
        if slot < 0:
            return self.base_offset, 0
        relative, position = self.ENTRY.unpack_from(self.data, slot * self.ENTRY.size)
        return relative + self.base_offset, position

    def at_or_below_position(self, position: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or below a position; (base offset, 0) if there is none."""
        slot = self._slot_at_or_below(position, field=1)
        if slot < 0:
            return self.base_offset, 0
        relative, indexed_position = self.ENTRY.unpack_from(self.data, slot * self.ENTRY.size)
        return relative + self.base_offset, indexed_position

    def upper_bound(self, position: int) -> int | None:
        """The first indexed offset at or past a position, if any."""
        slot = self._slot_at_or_below(position - 1, field=1) + 1
        if slot >= len(self):
            return None
        return int(self.ENTRY.unpack_from(self.data, slot * self.ENTRY.size)[0]) + self.base_offset

    @property
    def last(self) -> tuple[int, int]:
        """(offset, position); (base offset, 0) if there is no entry."""
        data = self.data
        if not data:
            return self.base_offset, 0
        relative, position = self.ENTRY.unpack_from(data, len(data) - self.ENTRY.size)
        return relative + self.base_offset, position

    def truncate_to(self, offset: int) -> None:
        """Drops the entries of `offset` and above."""
        self._truncate_entries(self._slot_at_or_below(offset - self.base_offset - 1) + 1)

    def entries(self) -> list[tuple[int, int]]:
        return [(relative + self.base_offset, position) for relative, position in self.ENTRY.iter_unpack(self.data)]


class TimeIndex(Index):
    """(timestamp, offset - base offset): no record up to the offset is newer than the timestamp."""

    KIND = TIME_INDEX
    ENTRY = struct.Struct(">qi")
    __slots__ = ()

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp exceeds the last one's."""
        data = self.data if self._data is None else self._data
        last = self.ENTRY.unpack_from(data, len(data) - self.ENTRY.size)[0] if data else -1
        if timestamp > last:
            data += self.ENTRY.pack(timestamp, offset - self.base_offset)

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset); (-1, base offset) if there is no entry."""
        data = self.data
        if not data:
            return -1, self.base_offset
        timestamp, relative = self.ENTRY.unpack_from(data, len(data) - self.ENTRY.size)
        return timestamp, relative + self.base_offset

    def offset_at_or_below(self, timestamp: int) -> int:
        """The offset from which to search for a record of `timestamp` or later."""
        slot = self._slot_at_or_below(timestamp)
        if slot < 0:
            return self.base_offset
        return int(self.ENTRY.unpack_from(self.data, slot * self.ENTRY.size)[1]) + self.base_offset

    def room(self, max_bytes: int) -> int:
        # One entry is reserved for the largest timestamp, which is added when the segment is sealed.
        return super().room(max_bytes - self.ENTRY.size)

    def truncate_to(self, offset: int) -> None:
        self._truncate_entries(self._slot_at_or_below(offset - self.base_offset - 1, field=1) + 1)

    def entries(self) -> list[tuple[int, int]]:
        return [(timestamp, relative + self.base_offset) for timestamp, relative in self.ENTRY.iter_unpack(self.data)]


class AbortedTxn(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex(Index):
    """The transactions aborted by a marker in this segment. The file exists only if there are any."""

    KIND = TXN_INDEX
    ENTRY = struct.Struct(">hqqqq")
    __slots__ = ()

    def append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        self.data.extend(self.ENTRY.pack(0, producer_id, first_offset, last_offset, last_stable_offset))

    def entries(self) -> Iterator[AbortedTxn]:
        return (AbortedTxn(*entry) for entry in self.ENTRY.iter_unpack(self.data))

    def collect(self, fetch_offset: int, upper_bound: int, found: list[AbortedTxn]) -> bool:
        """Adds the transactions that overlap the range; returns True once no later segment can have more."""
        for txn in self.entries():
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drops transactions aborted at `offset` or later."""
        kept = self._slot_at_or_below(offset - 1, field=3) + 1 if len(self) else 0
        if kept:
            self._truncate_entries(kept)
        elif len(self):
            self.clear()

    def clear(self) -> None:
        self._place.disk.remove(self.path)
        self._stored_bytes = 0
        self._data = bytearray()

    def file(self) -> File:
        return super().file() if self._stored_bytes else self._place.disk.create(self.path)

    def _check(self, data: bytearray) -> None:
        if len(data) % self.ENTRY.size:
            raise CorruptIndex(f"{self.path}: {len(data)} bytes are not a multiple of {self.ENTRY.size}")
        previous = -1
        for txn in self.ENTRY.iter_unpack(data):
            if txn[0] != 0 or txn[2] >= txn[3] or txn[3] < self.base_offset or txn[3] < previous:
                raise CorruptIndex(f"{self.path}: {AbortedTxn(*txn)} is out of order")
            previous = txn[3]


class IndexCache:
    """Bounds the memory of the indexes of old segments; evicts the least recently used."""

    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._sizes: OrderedDict[int, tuple[Index, int]] = OrderedDict()

    def add(self, index: Index, size: int) -> None:
        self.discard(index)
        self._sizes[id(index)] = (index, size)
        self._bytes += size
        while self._bytes > self.max_bytes and len(self._sizes) > 1:
            _, (oldest, oldest_size) = self._sizes.popitem(last=False)
            self._bytes -= oldest_size
            try:
                oldest.unload()
            except DiskError:
                # Its directory, possibly another one, has failed; the index's next user gets the error.
                continue

    def touch(self, index: Index) -> None:
        if id(index) in self._sizes:
            self._sizes.move_to_end(id(index))

    def discard(self, index: Index) -> None:
        entry = self._sizes.pop(id(index), None)
        if entry is not None:
            self._bytes -= entry[1]
