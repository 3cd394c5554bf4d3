"""Converts record batches to and from Arrow. `columns` and `column_input` do the work; importing this module imports
pyarrow."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from cordwood.wire.column_input import (
    DEFAULT_BATCH_BYTES,
    BinaryInput,
    HeaderInput,
    NumberInput,
    RecordInput,
    encode_columns,
)
from cordwood.wire.columns import BinaryColumn, HeaderColumns, decode_columns
from cordwood.wire.compression import Codec
from cordwood.wire.record import NO_TIMESTAMP, Buffer
from cordwood.wire.records import DECOMPRESSED_LIMIT_BYTES

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def require_pyarrow() -> None:
    """Raises an `ImportError` that says what to install."""
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise ImportError("Arrow needs pyarrow, which is not installed: pip install 'cordwood[arrow]'") from error


def to_arrow(
    data: Buffer,
    *,
    start_offset: int = 0,
    headers: bool = False,
    check_crcs: bool = False,
    limit: int = DECOMPRESSED_LIMIT_BYTES,
    skipped: Container[int] = (),
) -> pa.RecordBatch:
    """Returns the records of all whole batches in `data`: offset, timestamp (milliseconds), key, value and, on request,
    headers.

    Skips control batches, and batches whose base offset is in `skipped`.

    >>> to_arrow(fetched.records, start_offset=fetch_offset).column("value")
    """
    require_pyarrow()
    import pyarrow as pa

    columns = decode_columns(
        data, start_offset=start_offset, headers=headers, check_crcs=check_crcs, limit=limit, skipped=skipped
    )
    arrays = [
        pa.Array.from_buffers(pa.int64(), columns.length, [None, pa.py_buffer(columns.offsets)]),
        pa.Array.from_buffers(pa.int64(), columns.length, [None, pa.py_buffer(columns.timestamps)]),
        _binary_array(pa.binary(), columns.length, columns.keys),
        _binary_array(pa.binary(), columns.length, columns.values),
    ]
    if columns.headers is not None:
        arrays.append(_headers_array(columns.length, columns.headers))
    return pa.RecordBatch.from_arrays(arrays, schema=schema(headers=headers))


def from_arrow(
    values: pa.Array | pa.ChunkedArray | None,
    keys: pa.Array | pa.ChunkedArray | None = None,
    timestamps: pa.Array | pa.ChunkedArray | int = NO_TIMESTAMP,
    headers: pa.Array | pa.ChunkedArray | None = None,
    *,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> list[bytearray]:
    """Encodes arrays of bytes or text, timestamps and headers as batches, as a producer sends them.

    `timestamps` is one timestamp for all records in milliseconds, or an array of int64 or Arrow timestamps; a null
    means that the record has none.
    """
    return encode_columns(
        *record_input(values, keys, timestamps, headers),
        max_batch_bytes=max_batch_bytes,
        codec=codec,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def record_input(
    values: pa.Array | pa.ChunkedArray | None,
    keys: pa.Array | pa.ChunkedArray | None = None,
    timestamps: pa.Array | pa.ChunkedArray | int = NO_TIMESTAMP,
    headers: pa.Array | pa.ChunkedArray | None = None,
) -> RecordInput:
    """Like `from_arrow`, for callers that encode in steps. Copies no bytes if each array is a single chunk."""
    count = _count(values, keys)
    return RecordInput(
        count,
        None if keys is None else binary_input(keys),
        None if values is None else binary_input(values),
        _timestamp_input(timestamps, count),
        None if headers is None else _header_input(headers),
    )


def schema(*, headers: bool = False) -> pa.Schema:
    import pyarrow as pa

    fields = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
    if headers:
        fields.append(pa.field("headers", _headers_type(), nullable=False))
    return pa.schema(fields)


def _headers_type() -> pa.DataType:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.list_(pa.field("item", header, nullable=False))


def _binary_array(type_: pa.DataType, count: int, column: BinaryColumn) -> pa.Array:
    import pyarrow as pa

    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.contents)]
    return pa.Array.from_buffers(type_, count, buffers, null_count=column.null_count)


def _headers_array(count: int, headers: HeaderColumns) -> pa.Array:
    import pyarrow as pa

    # Invalid UTF-8 may arrive from anywhere, and must not end up in an array that claims to be valid.
    keys = _binary_array(pa.binary(), headers.length, headers.keys)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        names = pa.array((key.decode("utf-8", "replace") for key in keys.to_pylist()), pa.string())
    values = _binary_array(pa.binary(), headers.length, headers.values)
    items = pa.StructArray.from_arrays([names, values], fields=list(_headers_type().value_type))
    return pa.Array.from_buffers(_headers_type(), count, [None, pa.py_buffer(headers.offsets)], children=[items])


def _count(values: Any, keys: Any) -> int:
    column = keys if values is None else values
    if column is None:
        raise ValueError("records need a key column or a value column")
    return len(column)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    # Too large for 32-bit offsets: pyarrow then keeps several chunks, and 64-bit offsets hold them all.
    if isinstance(combined, pa.ChunkedArray):
        combined = column.cast(pa.large_binary()).combine_chunks()
    return combined


def binary_input(column: pa.Array | pa.ChunkedArray) -> BinaryInput:
    """An array of bytes or text for the compiled modules."""
    import pyarrow as pa

    array = _one_array(column)
    kind = array.type
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not wide and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
        array = array.cast(pa.binary())
    validity, offsets, contents = array.buffers()
    return BinaryInput(
        len(array),
        array.offset,
        bytes_of(validity) if array.null_count else None,
        bytes_of(offsets),
        bytes_of(contents),
        wide,
    )


def _timestamp_input(timestamps: pa.Array | pa.ChunkedArray | int, count: int) -> NumberInput:
    import pyarrow as pa

    if isinstance(timestamps, int):
        timestamps = pa.repeat(pa.scalar(timestamps, pa.int64()), count)
    array = _one_array(timestamps)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    return number_input(array.cast(pa.int64()))


def _header_input(headers: pa.Array | pa.ChunkedArray) -> HeaderInput:
    import pyarrow as pa

    array = _one_array(headers)
    if array.null_count:
        raise ValueError("a record without headers has an empty list, not null")
    items = array.values
    return HeaderInput(
        number_input(array.offsets.cast(pa.int64())),
        binary_input(items.field("key")),
        binary_input(items.field("value")),
    )


def number_input(array: pa.Array) -> NumberInput:
    """An array of int64 for the compiled modules."""
    validity, numbers = array.buffers()
    return NumberInput(
        len(array),
        array.offset,
        bytes_of(validity) if array.null_count else None,
        bytes_of(numbers),
        NO_TIMESTAMP,
    )


def bytes_of(buffer: pa.Buffer | None) -> Buffer:
    """An Arrow buffer as unsigned bytes."""
    # Arrow's buffers are typed as signed; an empty array may have no buffer.
    return b"" if buffer is None else memoryview(buffer).cast("B")
