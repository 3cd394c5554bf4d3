# cython: language_level=3, annotation_typing=False
"""Encodes columns as records: the buffers of Arrow arrays to batches, without a Python object per record.

One of the compiled modules (see `records`), and the inverse of `columns`, which describes the buffer layout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cordwood.wire.batch_header import TRANSACTIONAL_BIT
from cordwood.wire.compression import Codec
from cordwood.wire.hashing import Murmur2
from cordwood.wire.record import Buffer
from cordwood.wire.record_stream import RecordWriter
from cordwood.wire.records import seal

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AsString  # type: ignore[import-untyped]

MAX_VALUE_BYTES = 2**31 - 1
DEFAULT_BATCH_BYTES = 1024 * 1024


class BinaryInput:
    """An Arrow array of bytes or text: `first` is where a slice starts, `wide` means that offsets are int64.

    Value i lies between the offsets `stride * i` and `stride * i + 1`. Arrow's own stride is 1; 2 allows for bytes
    between the values, and 0 repeats one value. Offsets are checked as they are used, so an array with wrong offsets
    cannot cause out-of-bounds reads.
    """

    offsets: Any
    wide_offsets: Any
    contents: Any
    validity: Any

    def __init__(
        self,
        length: int,
        first: int,
        validity: Buffer | None,
        offsets: Buffer,
        contents: Buffer,
        wide: bool,
        stride: int = 1,
    ) -> None:
        offset_count = ((first + length - 1) * stride + 2) * (length > 0)
        if length < 0 or first < 0 or stride < 0 or len(offsets) < offset_count * (8 if wide else 4):
            raise ValueError(f"{len(offsets)} bytes of offsets for {length} values from {first} on")
        if validity is not None and len(validity) * 8 < first + length:
            raise ValueError(f"{len(validity)} bytes of validity for {length} values from {first} on")
        self.length = length
        self.first = first
        self.wide = wide
        self.stride = stride
        self.has_validity = validity is not None
        self.size = len(contents)
        if cython.compiled:
            self.validity_owner = validity if validity is not None else b""
            self.offsets_owner = offsets
            self.contents_owner = contents
            if len(offsets) > 0:
                self.offsets = cython.cast(cython.p_int, cython.address(self.offsets_owner[0]))
                self.wide_offsets = cython.cast(cython.p_longlong, cython.address(self.offsets_owner[0]))
            if len(contents) > 0:
                self.contents = cython.address(self.contents_owner[0])
            if validity is not None and len(validity) > 0:
                self.validity = cython.address(self.validity_owner[0])
        else:
            used = memoryview(offsets)[: offset_count * (8 if wide else 4)]
            self.offsets = None if wide else used.cast("i")
            self.wide_offsets = used.cast("q") if wide else None
            self.contents = memoryview(contents)
            self.validity = validity
        self.start = 0

    def find(self, index: int) -> int:
        """Returns the size of a value, -1 for null; `start` is then its position."""
        at = self.first + index
        if self.has_validity and not self.validity[at >> 3] >> (at & 7) & 1:
            return -1
        at *= self.stride
        if self.wide:
            self.start = self.wide_offsets[at]
            end = self.wide_offsets[at + 1]
        else:
            self.start = self.offsets[at]
            end = self.offsets[at + 1]
        if self.start < 0 or end < self.start or end > self.size or end - self.start > MAX_VALUE_BYTES:
            raise ValueError(f"value {index} is declared at {self.start} to {end} of {self.size} bytes")
        size: int = end - self.start
        return size

    def listed(self) -> list[bytes | None]:
        """Returns every value as an object."""
        values: list[bytes | None] = []
        for index in range(self.length):
            size = self.find(index)
            values.append(None if size < 0 else bytes(self.contents[self.start : self.start + size]))
        return values


class NumberInput:
    """An array of int64; nulls read as `null_value`."""

    numbers: Any
    validity: Any

    def __init__(self, length: int, first: int, validity: Buffer | None, numbers: Buffer, null_value: int) -> None:
        if length < 0 or first < 0 or len(numbers) < (first + length) * 8:
            raise ValueError(f"{len(numbers)} bytes for {length} numbers from {first} on")
        if validity is not None and len(validity) * 8 < first + length:
            raise ValueError(f"{len(validity)} bytes of validity for {length} numbers from {first} on")
        self.length = length
        self.first = first
        self.has_validity = validity is not None
        self.null_value = null_value
        if cython.compiled:
            self.validity_owner = validity if validity is not None else b""
            self.numbers_owner = numbers
            if len(numbers) > 0:
                self.numbers = cython.cast(cython.p_longlong, cython.address(self.numbers_owner[0]))
            if validity is not None and len(validity) > 0:
                self.validity = cython.address(self.validity_owner[0])
        else:
            self.numbers = memoryview(numbers)[: (first + length) * 8].cast("q")
            self.validity = validity

    def get(self, index: int) -> int:
        at = self.first + index
        is_null = self.has_validity and not self.validity[at >> 3] >> (at & 7) & 1
        number: int = self.null_value if is_null else self.numbers[at]
        return number


def key_partitions(keys: BinaryInput, partition_count: int, null_partition: int) -> bytearray:
    """Returns the partition of each record by Kafka's default partitioner, as int32; records without a key get
    `null_partition`."""
    if not 0 < partition_count <= 2**31:
        raise ValueError(f"{partition_count} partitions")
    partitions = bytearray(4 * keys.length)
    if cython.compiled:
        _hash_all(keys, cython.cast(cython.p_int, PyByteArray_AsString(partitions)), partition_count, null_partition)
    else:
        _hash_all(keys, memoryview(partitions).cast("i"), partition_count, null_partition)
    return partitions


def _hash_all(keys: BinaryInput, partitions: Any, partition_count: int, null_partition: int) -> None:
    hasher = Murmur2()
    for index in range(keys.length):
        size = keys.find(index)
        if size < 0:
            partitions[index] = null_partition
        else:
            partitions[index] = (hasher.of(keys.contents, keys.start, size) & 0x7FFFFFFF) % partition_count


class HeaderInput:
    """Header lists: record i has the headers from `starts[i]` to `starts[i + 1]` of `keys` and `values`.

    Without `starts`, each of the `record_count` records has all of them.
    """

    def __init__(
        self, starts: NumberInput | None, keys: BinaryInput, values: BinaryInput, record_count: int = 0
    ) -> None:
        if keys.length != values.length:
            raise ValueError(f"{keys.length} keys of headers, but {values.length} values")
        self.starts = starts
        self.keys = keys
        self.values = values
        self.total = keys.length
        self.record_count = record_count if starts is None else starts.length - 1

    def first(self, index: int) -> int:
        """Index of a record's first header."""
        return 0 if self.starts is None else self.starts.get(index)

    def end(self, index: int) -> int:
        return self.total if self.starts is None else self.starts.get(index + 1)


class RecordInput(NamedTuple):
    """The columns of records to encode."""

    record_count: int
    keys: BinaryInput | None
    values: BinaryInput | None
    timestamps: NumberInput
    headers: HeaderInput | None = None


class RowOrder:
    """Rows sorted by partition, stable within each partition."""

    rows: Any

    def __init__(self, partitions: Buffer, count: int, partition_count: int) -> None:
        """`partitions` has an int32 for each row, less than the number of partitions."""
        if len(partitions) < 4 * count:
            raise ValueError(f"{len(partitions)} bytes for the partitions of {count} rows")
        self.count = count
        self.row_bytes = bytearray(8 * count)
        if cython.compiled:
            self.rows = cython.cast(cython.p_longlong, PyByteArray_AsString(self.row_bytes))
        else:
            self.rows = memoryview(self.row_bytes).cast("q")
        self.starts = [0] * (partition_count + 1)
        """Where the rows of each partition begin; one more, for the end."""
        self.sort(memoryview(partitions).cast("B")[: 4 * count].cast("i"))

    def sort(self, partitions: Any) -> None:
        starts = self.starts
        partition_count = len(starts) - 1
        for row in range(self.count):
            partition = partitions[row]
            if partition < 0 or partition >= partition_count:
                raise ValueError(f"row {row} has partition {partition} where there are 0 to {partition_count - 1}")
            starts[partition + 1] += 1
        for partition in range(partition_count):
            starts[partition + 1] += starts[partition]
        following = list(starts)
        for row in range(self.count):
            partition = partitions[row]
            position = following[partition]
            self.rows[position] = row
            following[partition] = position + 1


def encode_columns(
    count: int,
    keys: BinaryInput | None,
    values: BinaryInput | None,
    timestamps: NumberInput,
    headers: HeaderInput | None = None,
    *,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> list[bytearray]:
    """Encodes `count` records as batches of at most `max_batch_bytes` each (before compression).

    Batches are as a producer sends them: each starts at offset 0, and sequence numbers continue from batch to batch.
    """
    records = RecordInput(count, keys, values, timestamps, headers)
    check_lengths(records)
    batches = []
    done = 0
    while done < count:
        batch, written = encode_some(
            records,
            done,
            count,
            max_batch_bytes=max_batch_bytes,
            codec=codec,
            level=level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence if base_sequence < 0 else (base_sequence + done) % 2**31,
            transactional=transactional,
        )
        batches.append(batch)
        done += written
    return batches


def check_lengths(records: RecordInput) -> None:
    for column in (records.keys, records.values, records.timestamps):
        if column is not None and column.length != records.record_count:
            raise ValueError(f"a column of {column.length} values for {records.record_count} records")
    if records.headers is not None and records.headers.record_count != records.record_count:
        raise ValueError(f"headers of {records.headers.record_count} records for {records.record_count}")


def encode_some(
    records: RecordInput,
    start: int,
    end: int,
    order: RowOrder | None = None,
    *,
    max_batch_bytes: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> tuple[bytearray, int]:
    """Encodes one batch of the records from `start` on (in `order`, if given) and returns it with its record count: at
    least one, and no more than fit before `end`. The caller must have checked the lengths of the columns."""
    if not 0 <= start < end <= records.record_count or (order is not None and order.count != records.record_count):
        raise ValueError(f"records {start} to {end} of {records.record_count}")
    writer = RecordWriter()
    written, base_timestamp = _fill(
        writer,
        start,
        end,
        order,
        records.keys,
        records.values,
        records.timestamps,
        records.headers,
        max_batch_bytes,
    )
    batch = seal(
        writer.batch(),
        base_offset=0,
        last_offset_delta=written - 1,
        leader_epoch=-1,
        attributes=TRANSACTIONAL_BIT if transactional else 0,
        base_timestamp=base_timestamp,
        max_timestamp=writer.max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=written,
        codec=codec,
        level=level,
    )
    return batch, written


def _fill(
    writer: RecordWriter,
    start: int,
    end: int,
    order: RowOrder | None,
    keys: BinaryInput | None,
    values: BinaryInput | None,
    timestamps: NumberInput,
    headers: HeaderInput | None,
    max_batch_bytes: int,
) -> tuple[int, int]:
    """Writes records from `start` on until the batch is full. Returns their number (at least one) and the first
    timestamp."""
    base_timestamp = timestamps.get(start if order is None else order.rows[start])
    index = start
    while index < end:
        row = index if order is None else order.rows[index]
        timestamp = timestamps.get(row)
        if timestamp < -1:  # -1 means none
            raise ValueError(f"negative timestamp {timestamp} of record {row}")
        key_size = keys.find(row) if keys is not None else -1
        value_size = values.find(row) if values is not None else -1
        headers_size = _headers_size(writer, headers, row) if headers is not None else 1
        size = writer.field_size(key_size) + writer.field_size(value_size) + headers_size
        if index > start and writer.size_with(size) > max_batch_bytes:
            break
        writer.start(timestamp, base_timestamp, index - start, size)
        writer.varint(key_size)
        if keys is not None:
            writer.copy(keys.contents, keys.start, key_size)
        writer.varint(value_size)
        if values is not None:
            writer.copy(values.contents, values.start, value_size)
        if headers is not None:
            _write_headers(writer, headers, row)
        else:
            writer.varint(0)
        index += 1
    return index - start, base_timestamp


def _headers_size(writer: RecordWriter, headers: HeaderInput, index: int) -> int:
    first = headers.first(index)
    end = headers.end(index)
    if first < 0 or end < first or end > headers.total:
        raise ValueError(f"record {index} is declared to have headers {first} to {end} of {headers.total}")
    size = writer.varint_size(end - first)
    for at in range(first, end):
        key_size = headers.keys.find(at)
        if key_size < 0:
            raise ValueError(f"record {index} has a header without a key")
        size += writer.field_size(key_size) + writer.field_size(headers.values.find(at))
    return size


def _write_headers(writer: RecordWriter, headers: HeaderInput, index: int) -> None:
    first = headers.first(index)
    end = headers.end(index)
    writer.varint(end - first)
    for at in range(first, end):
        size = headers.keys.find(at)
        writer.varint(size)
        writer.copy(headers.keys.contents, headers.keys.start, size)
        size = headers.values.find(at)
        writer.varint(size)
        writer.copy(headers.values.contents, headers.values.start, size)
