# cython: language_level=3, annotation_typing=False
"""Decodes records into columns: batches to the buffers of Arrow arrays, without a Python object per record.

One of the compiled modules (see `records`). Buffers have Arrow's layout: numbers in native byte order, validity as bits
from the lowest on, text and bytes as one run with offsets into it. `arrow` wraps them in arrays, and `column_input` is
the inverse.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from cordwood.wire.batch_header import batch_bytes, batch_headers, check_crc
from cordwood.wire.legacy import upconvert
from cordwood.wire.record import Buffer
from cordwood.wire.record_stream import RecordCursor
from cordwood.wire.records import DECOMPRESSED_LIMIT_BYTES, payload

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AsString  # type: ignore[import-untyped]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

MAX_COLUMN_BYTES = 2**31 - 1
"""The limit of a column with 32-bit offsets."""


class BinaryColumn(NamedTuple):
    """The buffers of an array of bytes or text."""

    offsets: bytearray
    """int32, one more than the number of values."""
    contents: bytearray
    validity: bytearray | None
    """One bit per value, 0 for null; None if there are no nulls."""
    null_count: int


class HeaderColumns(NamedTuple):
    """The buffers of a list of (key, value) per record."""

    offsets: bytearray
    """int32, one more than the number of records: where each record's headers start."""
    length: int
    """Number of headers of all records, the length of both columns."""
    keys: BinaryColumn
    values: BinaryColumn


class RecordColumns(NamedTuple):
    length: int
    offsets: bytearray
    """int64"""
    timestamps: bytearray
    """int64, milliseconds"""
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeaderColumns | None


def decode_columns(
    data: Buffer,
    *,
    start_offset: int = 0,
    headers: bool = False,
    check_crcs: bool = False,
    limit: int = DECOMPRESSED_LIMIT_BYTES,
    skipped: Container[int] = (),
) -> RecordColumns:
    """Decodes the records of all whole batches in `data`, such as a Fetch response, from `start_offset` on.

    Skips control batches, and batches whose base offset is in `skipped` (aborted transactions, for read_committed
    consumers). `limit` bounds the decompressed size of all batches together.
    """
    # Two passes: the first validates and adds up the sizes, the second copies into buffers of those sizes.
    batches = _payloads(data, start_offset, check_crcs, limit, skipped)
    sizes = ColumnSizes(start_offset)
    for header, contents in batches:
        sizes.add(RecordCursor(contents, header))
    builder = ColumnBuilder(sizes, headers)
    for header, contents in batches:
        builder.add(RecordCursor(contents, header))
    return builder.columns()


def _payloads(
    data: Buffer, start_offset: int, check_crcs: bool, limit: int, skipped: Container[int]
) -> list[tuple[Any, Buffer]]:
    """Yields the header and decompressed records of each batch that contributes any."""
    found = []
    for position, header in batch_headers(data):
        if check_crcs:
            check_crc(data, header, position)
        if header.magic < 2:
            converted = upconvert(batch_bytes(data, position, header), limit=limit)
            found += _payloads(converted, start_offset, False, limit, ())
        elif (
            not header.is_control
            and header.count != 0
            and header.last_offset >= start_offset
            and header.base_offset not in skipped
        ):
            contents = payload(data, position, header, limit)
            if header.is_compressed:
                limit -= len(contents)
            found.append((header, contents))
    return found


class ColumnSizes:
    """The sizes of the columns."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.count = 0
        self.key_bytes = 0
        self.value_bytes = 0
        self.header_count = 0
        self.header_bytes = 0

    def add(self, cursor: RecordCursor) -> None:
        for _ in range(cursor.count):
            cursor.advance()
            if cursor.offset >= self.start_offset:
                self.count += 1
                if cursor.key_size > 0:
                    self.key_bytes += cursor.key_size
                if cursor.value_size > 0:
                    self.value_bytes += cursor.value_size
                self.header_count += cursor.header_count
                self.header_bytes += cursor.headers_end - cursor.headers_start
        cursor.finish()
        if max(self.key_bytes, self.value_bytes, self.header_bytes) > MAX_COLUMN_BYTES:
            raise ValueError(f"a column of more than {MAX_COLUMN_BYTES} bytes: decode fewer batches at a time")


class ColumnBuilder:
    """Fills columns of known sizes; the cursors must cover exactly the records that were measured."""

    offsets: Any
    timestamps: Any
    header_offsets: Any

    def __init__(self, sizes: ColumnSizes, with_headers: bool) -> None:
        self.start_offset = sizes.start_offset
        self.count = sizes.count
        self.index = 0
        self.offset_bytes = bytearray(8 * sizes.count)
        self.timestamp_bytes = bytearray(8 * sizes.count)
        self.keys = BinaryBuilder(sizes.count, sizes.key_bytes)
        self.values = BinaryBuilder(sizes.count, sizes.value_bytes)
        self.with_headers = with_headers
        self.header_count = 0
        self.header_offset_bytes = bytearray(4 * (sizes.count + 1) if with_headers else 0)
        # header_bytes includes the headers' own length fields, so both columns fit into it.
        self.header_keys = BinaryBuilder(sizes.header_count if with_headers else 0, sizes.header_bytes)
        self.header_values = BinaryBuilder(sizes.header_count if with_headers else 0, sizes.header_bytes)
        if cython.compiled:
            self.offsets = cython.cast(cython.p_longlong, PyByteArray_AsString(self.offset_bytes))
            self.timestamps = cython.cast(cython.p_longlong, PyByteArray_AsString(self.timestamp_bytes))
            self.header_offsets = cython.cast(cython.p_int, PyByteArray_AsString(self.header_offset_bytes))
        else:
            self.offsets = memoryview(self.offset_bytes).cast("q")
            self.timestamps = memoryview(self.timestamp_bytes).cast("q")
            self.header_offsets = memoryview(self.header_offset_bytes).cast("i")

    def add(self, cursor: RecordCursor) -> None:
        for _ in range(cursor.count):
            cursor.advance()
            if cursor.offset >= self.start_offset and self.index < self.count:
                self.offsets[self.index] = cursor.offset
                self.timestamps[self.index] = cursor.timestamp
                self.keys.append(cursor, cursor.key_start, cursor.key_size)
                self.values.append(cursor, cursor.value_start, cursor.value_size)
                self.index += 1
                if self.with_headers:
                    self.add_headers(cursor)

    def add_headers(self, cursor: RecordCursor) -> None:
        cursor.position = cursor.headers_start
        for _ in range(cursor.header_count):
            size = cursor.varint(cursor.headers_end)
            self.header_keys.append(cursor, cursor.skip(size, cursor.headers_end), size)
            size = cursor.varint(cursor.headers_end)
            self.header_values.append(cursor, cursor.skip(size, cursor.headers_end), size)
        self.header_count += cursor.header_count
        self.header_offsets[self.index] = self.header_count

    def columns(self) -> RecordColumns:
        headers = None
        if self.with_headers:
            headers = HeaderColumns(
                self.header_offset_bytes,
                self.header_count,
                self.header_keys.column(),
                self.header_values.column(),
            )
        return RecordColumns(
            self.count,
            self.offset_bytes,
            self.timestamp_bytes,
            self.keys.column(),
            self.values.column(),
            headers,
        )


class BinaryBuilder:
    """Fills a BinaryColumn with a known number of values and at most `size` bytes."""

    offsets: Any
    contents: Any
    validity: Any

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self.index = 0
        self.position = 0
        self.null_count = 0
        self.offset_bytes = bytearray(4 * (count + 1))
        self.content_bytes = bytearray(size)
        self.validity_bytes = bytearray((count + 7) // 8)
        if cython.compiled:
            self.offsets = cython.cast(cython.p_int, PyByteArray_AsString(self.offset_bytes))
            self.contents = cython.cast(cython.p_uchar, PyByteArray_AsString(self.content_bytes))
            self.validity = cython.cast(cython.p_uchar, PyByteArray_AsString(self.validity_bytes))
        else:
            self.offsets = memoryview(self.offset_bytes).cast("i")
            self.contents = memoryview(self.content_bytes)
            self.validity = self.validity_bytes

    def append(self, cursor: RecordCursor, start: int, size: int) -> None:
        if self.index >= self.count or size > self.size - self.position:
            raise AssertionError("the records changed between being measured and being copied")
        if size >= 0:
            self.validity[self.index >> 3] |= 1 << (self.index & 7)
            if cython.compiled:
                memcpy(self.contents + self.position, cursor.data + start, size)
            else:
                self.contents[self.position : self.position + size] = cursor.data[start : start + size]
            self.position += size
        else:
            self.null_count += 1
        self.index += 1
        self.offsets[self.index] = self.position

    def column(self) -> BinaryColumn:
        validity = self.validity_bytes if self.null_count else None
        return BinaryColumn(self.offset_bytes, self.content_bytes, validity, self.null_count)
