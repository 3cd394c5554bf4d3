"""The indexes of a segment, entry by entry.

A running or killed broker leaves indexes padded with zeros to their full size. Zeros up to the end of the file are
padding.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cordwood.log.files import OFFSET_INDEX, TIME_INDEX, TXN_INDEX
from cordwood.log.storage.index import AbortedTxn, OffsetIndex, TimeIndex, TxnIndex
from cordwood.runtime.files.read_only import ReadOnlyFile


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


_ENTRIES_AT_A_TIME = 10_000


def dump_index(file: ReadOnlyFile, kind: str, base_offset: int) -> Iterator[dict[str, Any]]:
    describe = _DESCRIBERS[kind]
    for entry in ENTRY_READERS[kind](file, base_offset):
        yield describe(entry)
    yield from index_problems(file, kind)


def index_problems(file: ReadOnlyFile, kind: str) -> Iterator[dict[str, Any]]:
    size = _LAYOUTS[kind].size
    if over := file.size % size:
        # A preallocated index has the largest multiple of its entries' size that fits its limit.
        yield {
            "type": "problem",
            "position": file.size - over,
            "reason": f"{over} bytes too many: an entry has {size}",
        }


def offset_entries(file: ReadOnlyFile, base_offset: int) -> Iterator[OffsetEntry]:
    for relative, position in _entries(file, OffsetIndex.ENTRY):
        yield OffsetEntry(base_offset + relative, position)


def time_entries(file: ReadOnlyFile, base_offset: int) -> Iterator[TimeEntry]:
    for timestamp, relative in _entries(file, TimeIndex.ENTRY):
        yield TimeEntry(timestamp, base_offset + relative)


def aborted_txns(file: ReadOnlyFile, _base_offset: int = 0) -> Iterator[AbortedTxn]:
    for entry in _entries(file, TxnIndex.ENTRY):
        yield AbortedTxn(*entry)


def _entries(file: ReadOnlyFile, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    zeros = 0
    for chunk in file.chunks(length=layout.size * _ENTRIES_AT_A_TIME):
        whole = len(chunk) - len(chunk) % layout.size
        for entry in layout.iter_unpack(memoryview(chunk)[:whole]):
            if not any(entry):
                zeros += 1
                continue
            for _ in range(zeros):
                yield (0,) * len(entry)
            zeros = 0
            yield entry


def _describe_offset(entry: OffsetEntry) -> dict[str, Any]:
    return {"type": "indexEntry", "offset": entry.offset, "position": entry.position}


def _describe_time(entry: TimeEntry) -> dict[str, Any]:
    return {"type": "timeIndexEntry", "timestamp": entry.timestamp, "offset": entry.offset}


def describe_txn(txn: AbortedTxn) -> dict[str, Any]:
    return {
        "version": txn.version,
        "producerId": txn.producer_id,
        "firstOffset": txn.first_offset,
        "lastOffset": txn.last_offset,
        "lastStableOffset": txn.last_stable_offset,
    }


_LAYOUTS = {OFFSET_INDEX: OffsetIndex.ENTRY, TIME_INDEX: TimeIndex.ENTRY, TXN_INDEX: TxnIndex.ENTRY}
ENTRY_READERS: dict[str, Callable[[ReadOnlyFile, int], Iterator[Any]]] = {
    OFFSET_INDEX: offset_entries,
    TIME_INDEX: time_entries,
    TXN_INDEX: aborted_txns,
}
_DESCRIBERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    OFFSET_INDEX: _describe_offset,
    TIME_INDEX: _describe_time,
    TXN_INDEX: lambda txn: {"type": "abortedTxn"} | describe_txn(txn),
}
