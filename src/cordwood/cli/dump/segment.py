"""Reads a segment, or a metadata snapshot, which has the same format: its batches and records from first byte to last.

Torn and damaged batches are reported as problems. After a wrong checksum reading continues with the next batch; after
broken framing nothing that follows can be found.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from cordwood.runtime.files.read_only import CHUNK_BYTES, ReadOnlyFile
from cordwood.wire.batch_header import ATTRIBUTES_POSITION, LEGACY_CHECKSUMMED_POSITION
from cordwood.wire.checksum import crc32c
from cordwood.wire.records import (
    BATCH_HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    InvalidRecord,
    Record,
    check_crc,
    decode_batch,
    read_header,
)

from .describe import describe_batch, describe_record

# The most that is held in memory: larger batches are checked piece by piece, and their records are not shown.
MAX_BATCH_BYTES = 64 * 1024 * 1024
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
_CHECKSUMMED_POSITION = (LEGACY_CHECKSUMMED_POSITION, LEGACY_CHECKSUMMED_POSITION, ATTRIBUTES_POSITION)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of a segment."""

    records: bool = True
    # Skip everything before the batch that holds this offset.
    from_offset: int = 0
    # Maximum number of batches per file; None for all.
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    position: int
    header: BatchHeader
    # The decoded records; None if they could not be decoded or were not requested.
    records: list[Record] | None
    is_valid: bool
    problems: tuple[str, ...]

    @property
    def first_offset(self) -> int:
        return self.records[0].offset if self.records else self.header.base_offset


@dataclass(frozen=True, slots=True)
class Rest:
    """The bytes after the last whole batch. Zeros mean a preallocated segment."""

    position: int
    size: int
    reason: str
    is_padding: bool


class BatchCheck(Protocol):
    """Examines every batch, shown or not, and describes its problems."""

    def observe(self, batch: Batch) -> Iterator[dict[str, Any]]: ...

    def finish(self) -> Iterator[dict[str, Any]]: ...


def dump_segment(
    file: ReadOnlyFile, topic: str | None, selection: Selection, check: BatchCheck | None = None
) -> Iterator[dict[str, Any]]:
    shown = 0
    for batch in walk(file, decode=selection.records or check is not None):
        if isinstance(batch, Rest):
            yield _describe_rest(batch)
            break
        if batch.header.last_offset >= selection.from_offset:
            if selection.limit is None or shown < selection.limit:
                yield from _describe(batch, topic, selection)
                shown += 1
            elif check is None:
                return
        if check is not None:
            yield from check.observe(batch)
    if check is not None:
        yield from check.finish()


def _describe(batch: Batch, topic: str | None, selection: Selection) -> Iterator[dict[str, Any]]:
    yield {"type": "batch"} | describe_batch(batch.header, batch.position, batch.is_valid, batch.first_offset)
    for problem in batch.problems:
        yield {"type": "problem", "position": batch.position, "reason": problem}
    if selection.records:
        for record in batch.records or ():
            if record.offset >= selection.from_offset:
                yield {"type": "record"} | describe_record(record, topic, is_control=batch.header.is_control)


def _describe_rest(rest: Rest) -> dict[str, Any]:
    kind = "padding" if rest.is_padding else "problem"
    return {"type": kind, "position": rest.position, "sizeInBytes": rest.size, "reason": rest.reason}


def walk(file: ReadOnlyFile, *, decode: bool) -> Iterator[Batch | Rest]:
    """Yields every batch, then the rest of the file if that is no batch. Continues while another process appends."""
    position = window_start = 0
    window = b""
    while position < file.size or file.refresh():
        at = position - window_start
        if len(window) - at < BATCH_HEADER_SIZE:
            window_start, window, at = position, file.read(position, CHUNK_BYTES), 0
        try:
            header = read_header(window, at)
            if position + header.size > file.size:
                raise CorruptBatch(f"torn: {header.size} bytes declared, {file.size - position} available")
        except CorruptBatch as error:
            window = b""
            if file.refresh():
                continue
            yield _what_is_left(file, position, str(error))
            return
        if header.size > MAX_BATCH_BYTES:
            yield _check_large(file, position, header)
        elif at + header.size <= len(window):
            yield _read_batch(position, header, memoryview(window)[at : at + header.size], decode)
        else:
            yield _read_batch(position, header, memoryview(file.read(position, header.size)), decode)
        position += header.size


def _read_batch(position: int, header: BatchHeader, data: memoryview, decode: bool) -> Batch:
    problems = []
    records = None
    try:
        check_crc(data, header)
    except CorruptBatch as error:
        problems.append(str(error))
    is_valid = not problems
    # Messages of magic 0 and 1 have their offsets only inside.
    if decode or header.magic < 2:
        try:
            records = decode_batch(data, limit=MAX_DECOMPRESSED_BYTES)
        except (CorruptBatch, InvalidRecord) as error:
            problems.append(f"the records cannot be read: {error}")
    return Batch(position, header, records, is_valid, tuple(problems))


def _check_large(file: ReadOnlyFile, position: int, header: BatchHeader) -> Batch:
    checksum, at, end = 0, position + _CHECKSUMMED_POSITION[header.magic], position + header.size
    add = crc32c if header.magic >= 2 else zlib.crc32
    while at < end and (chunk := file.read(at, min(CHUNK_BYTES, end - at))):
        checksum = add(chunk, checksum)
        at += len(chunk)
    problems = [f"a batch of {header.size} bytes is too large to show its records"]
    if checksum != header.crc:
        problems.insert(0, f"stored checksum {header.crc:#010x}, computed {checksum:#010x}")
    return Batch(position, header, None, checksum == header.crc, tuple(problems))


def _what_is_left(file: ReadOnlyFile, position: int, reason: str) -> Rest:
    size = file.size - position
    is_padding = all(chunk.count(0) == len(chunk) for chunk in file.chunks(position))
    return Rest(position, size, f"{size} zeros" if is_padding else reason, is_padding)
