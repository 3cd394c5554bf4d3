# cython: language_level=3, annotation_typing=False
"""Record batches: decoded, encoded, filtered. One of the compiled modules, which contain the only loops over records.

These are this module, `batch_header`, `record_stream`, `record_checks`, `columns` and those that name this one. The
same files also run uncompiled; their .pxd files hold the C types. All input is validated: bytes that are not a batch
raise CorruptBatch or InvalidRecord and nothing else, and no more is allocated than the caller's limit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from cordwood.wire.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
    batch_bytes,
    batch_headers,
    check_crc,
    read_header,
    stamp,
    stamp_max_timestamp,
    whole_batches_length,
)
from cordwood.wire.checksum import crc32c
from cordwood.wire.compression import Codec, DecompressionError, compress, decompress
from cordwood.wire.record import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    Buffer,
    ConsumerRecord,
    CorruptBatch,
    InvalidRecord,
    Record,
)
from cordwood.wire.record_stream import RecordCursor, RecordWriter

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

__all__ = [
    "BATCH_HEADER_SIZE",
    "COMPILED",
    "DECOMPRESSED_LIMIT_BYTES",
    "LOG_OVERHEAD",
    "BatchHeader",
    "BatchReader",
    "Buffer",
    "ConsumerRecord",
    "CorruptBatch",
    "InvalidRecord",
    "Record",
    "batch_headers",
    "check_crc",
    "clean_batch",
    "decode_batch",
    "empty_batch",
    "encode_batch",
    "filter_batch",
    "read_header",
    "recompress",
    "record_keys",
    "stamp",
    "stamp_max_timestamp",
    "whole_batches_length",
]

COMPILED: bool = cython.compiled
"""True if this module is compiled, False if the same source is interpreted."""

DECOMPRESSED_LIMIT_BYTES = 256 * 1024 * 1024
"""Limit of a batch's decompressed size if the caller has none."""
MAX_OFFSET_DELTA = 2**31 - 1

_AFTER_CRC = struct.Struct(">hiqqqhii")


def decode_batch(data: Buffer, position: int = 0, *, limit: int = DECOMPRESSED_LIMIT_BYTES) -> list[Record]:
    """Returns the records of the batch at `position`, of any magic. The caller checks the checksum."""
    header = read_header(data, position)
    if header.magic < 2:
        return _legacy_records(data, position, header, limit)
    # An emptied batch has no records; Kafka ignores what follows its header.
    return _decoded(_cursor(data, position, header, limit)) if header.count else []


class BatchReader:
    """Reads the records of one batch from `start_offset` on in portions, decoding each once.

    The caller checks the checksum.
    """

    def __init__(
        self,
        data: Buffer,
        position: int,
        header: BatchHeader,
        topic: str,
        partition: int,
        start_offset: int,
        *,
        limit: int = DECOMPRESSED_LIMIT_BYTES,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.start_offset = start_offset
        self.leader_epoch = header.leader_epoch
        self.timestamp_type = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME
        if header.magic < 2:
            if header.magic == 0:
                self.timestamp_type = NO_TIMESTAMP_TYPE
            data, position = _upconverted(data, position, header, limit), 0
            header = read_header(data)
        self.next_offset = start_offset
        """Behind the last record that was rendered as text (`RecordText.read`)."""
        self.left = header.count
        # An emptied batch has no records; Kafka ignores what follows its header.
        self.cursor = _cursor(data, position, header, limit) if header.count else None

    def take(self, most: int) -> list[ConsumerRecord]:
        """Returns the next records, at most `most`; fewer only at the end of the batch. `left` bounds how many may
        follow."""
        cursor: Any = self.cursor
        records: list[ConsumerRecord] = []
        taken = 0
        while taken < most and self.left > 0:
            cursor.advance()
            self.left -= 1
            if cursor.offset >= self.start_offset:
                taken += 1
                records.append(
                    _new_record(
                        ConsumerRecord,
                        (
                            self.topic,
                            self.partition,
                            cursor.offset,
                            cursor.timestamp,
                            cursor.key(),
                            cursor.value(),
                            cursor.headers() if cursor.header_count else (),
                            self.timestamp_type,
                            self.leader_epoch,
                        ),
                    )
                )
        if self.left == 0 and cursor is not None:
            cursor.finish()
            self.cursor = None
        return records


def record_keys(
    data: Buffer, position: int, header: BatchHeader, *, limit: int
) -> list[tuple[int, bytes | None, bool]]:
    """Returns each record's offset, key and whether it has a value: the input of compaction."""
    if header.magic < 2:
        records = _legacy_records(data, position, header, limit)
        return [(record.offset, record.key, record.value is not None) for record in records]
    return _keys(_cursor(data, position, header, limit)) if header.count else []


def _legacy_records(data: Buffer, position: int, header: BatchHeader, limit: int) -> list[Record]:
    # Imported here because up-conversion there needs this module.
    from cordwood.wire import legacy

    return legacy.decode(batch_bytes(data, position, header), header, limit)


def _upconverted(data: Buffer, position: int, header: BatchHeader, limit: int) -> bytearray:
    from cordwood.wire import legacy

    return legacy.upconvert(batch_bytes(data, position, header), limit=limit)


def _cursor(data: Buffer, position: int, header: BatchHeader, limit: int) -> RecordCursor:
    return RecordCursor(payload(data, position, header, limit), header)


def payload(data: Buffer, position: int, header: BatchHeader, limit: int) -> Buffer:
    """The bytes of a batch's records, decompressed."""
    body = batch_bytes(data, position, header)[BATCH_HEADER_SIZE:]
    if not header.is_compressed:
        return body
    try:
        return decompress(header.codec, body, limit)
    except DecompressionError as error:
        raise InvalidRecord(f"batch at offset {header.base_offset}: {error}") from error


_new_record: Any = tuple.__new__
"""Creates a Record without calling its constructor, which would be a third of the cost of decoding it."""


def _decoded(cursor: RecordCursor) -> list[Record]:
    records = []
    for _ in range(cursor.count):
        cursor.advance()
        headers = cursor.headers() if cursor.header_count else ()
        records.append(_new_record(Record, (cursor.offset, cursor.timestamp, cursor.key(), cursor.value(), headers)))
    cursor.finish()
    return records


def _keys(cursor: RecordCursor) -> list[tuple[int, bytes | None, bool]]:
    keys = []
    for _ in range(cursor.count):
        cursor.advance()
        keys.append((cursor.offset, cursor.key(), cursor.value_size >= 0))
    cursor.finish()
    return keys


# Writing batches


def encode_batch(
    records: Iterable[tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Encodes records (offset, timestamp, key, value, headers) as a batch of magic 2.

    Offsets must increase; gaps are allowed. The batch starts at the first record's offset unless `base_offset` is
    given, and ends at the last one's unless `last_offset` is. With `log_append_time` the records' own timestamps are
    still written, but readers see that time for each of them.
    """
    writer = RecordWriter()
    first_offset = base_offset
    base_timestamp = delete_horizon_ms
    offset: Any = None
    previous: Any = None
    for offset, timestamp, key, value, headers in records:
        if first_offset is None:
            first_offset = offset
        if base_timestamp is None:
            base_timestamp = timestamp
        if (
            offset - first_offset > MAX_OFFSET_DELTA
            or offset < first_offset
            or (previous is not None and offset <= previous)
        ):
            raise ValueError(f"offset {offset} cannot follow {first_offset if previous is None else previous}")
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"negative timestamp {timestamp}")
        writer.append(
            timestamp,
            base_timestamp,
            offset - first_offset,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            [(name.encode(), None if content is None else bytes(content)) for name, content in headers],
        )
        previous = offset
    if first_offset is None or previous is None or base_timestamp is None:
        raise ValueError("a batch needs a record; use empty_batch for one that compaction has emptied")
    return seal(
        writer.batch(),
        base_offset=first_offset,
        last_offset_delta=(previous if last_offset is None else last_offset) - first_offset,
        leader_epoch=leader_epoch,
        attributes=(TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (LOG_APPEND_TIME_BIT if log_append_time is not None else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0),
        base_timestamp=base_timestamp,
        max_timestamp=writer.max_timestamp if log_append_time is None else log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=writer.count,
        codec=codec,
        level=level,
    )


def empty_batch(header: BatchHeader) -> bytearray:
    """The remainder of a batch that compaction emptied but must keep for its offsets and sequence."""
    return seal(
        bytearray(BATCH_HEADER_SIZE),
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=0,
    )


def clean_batch(
    data: Buffer,
    position: int,
    header: BatchHeader,
    retained: bytes | bytearray,
    *,
    keep_empty: bool,
    marks_empty_transaction: bool,
    delete_horizon_ms: int,
    limit: int,
) -> bytearray:
    """Returns what compaction writes for a batch, like Kafka's MemoryRecords.filterTo.

    `retained` has a byte for each record: 0 drops it. A batch without records is dropped unless `keep_empty`. One that
    still holds tombstones, or a marker whose transaction has no data left (`marks_empty_transaction`), gets
    `delete_horizon_ms` (now + delete.retention.ms) if it has no horizon yet.
    """
    if not any(retained):
        return empty_batch(header) if keep_empty and header.magic == 2 else bytearray()
    if header.magic == 2 and header.delete_horizon_ms is None:
        keys = record_keys(data, position, header, limit=limit)
        needs_horizon = marks_empty_transaction or any(
            keep and not has_value for keep, (_, _, has_value) in zip(retained, keys, strict=True)
        )
        horizon = delete_horizon_ms if needs_horizon else None
    else:
        horizon = None
    return filter_batch(data, position, header, retained, delete_horizon_ms=horizon, limit=limit)


def filter_batch(
    data: Buffer,
    position: int,
    header: BatchHeader,
    retained: bytes | bytearray,
    *,
    delete_horizon_ms: int | None,
    limit: int,
) -> bytearray:
    """Returns the batch with only the records whose byte in `retained` is not 0; empty if there are none.

    Offsets, sequence and producer are preserved. `delete_horizon_ms` becomes the batch's horizon; None keeps the
    existing one. If nothing changes, the bytes are the input's. A filtered batch of magic 0 or 1 becomes magic 2.
    """
    horizon = header.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    if 0 not in retained and horizon == header.delete_horizon_ms:
        return bytearray(batch_bytes(data, position, header))
    if header.magic < 2:
        return _filter_legacy(data, position, header, retained, limit)
    if len(retained) != header.count:
        raise ValueError(f"{len(retained)} retain flags for {header.count} records")
    writer = RecordWriter()
    base_timestamp = _retain(writer, _cursor(data, position, header, limit), retained, horizon)
    if writer.count == 0:
        return bytearray()
    return seal(
        writer.batch(),
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
        | (DELETE_HORIZON_BIT if horizon is not None else 0),
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if header.is_log_append_time else writer.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=writer.count,
        codec=header.codec,
    )


def recompress(
    data: Buffer, position: int, header: BatchHeader, codec: Codec, level: int | None, *, limit: int
) -> bytearray:
    """Returns the batch with another codec, as a broker needs if the topic's compression.type differs."""
    batch = bytearray(BATCH_HEADER_SIZE)
    batch += payload(data, position, header, limit)
    return seal(
        batch,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & ~CODEC_BITS,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=header.count,
        codec=codec,
        level=level,
    )


def seal(
    batch: bytearray,
    *,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> bytearray:
    """Completes a batch buffer (header space followed by records): compresses the records and writes the header."""
    if codec is not Codec.NONE:
        packed = compress(codec, memoryview(batch)[BATCH_HEADER_SIZE:], level)
        batch = bytearray(BATCH_HEADER_SIZE)
        batch += packed
    fields = (
        attributes | codec,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    _AFTER_CRC.pack_into(batch, ATTRIBUTES_POSITION, *fields)
    crc = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    HEADER.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD, leader_epoch, 2, crc, *fields)
    return batch


def _retain(writer: RecordWriter, cursor: RecordCursor, retained: bytes | bytearray, base_timestamp: int | None) -> Any:
    """Writes the retained records; timestamps are relative to `base_timestamp`, or to the first record's."""
    for index in range(cursor.count):
        cursor.advance()
        if retained[index]:
            if base_timestamp is None:
                base_timestamp = cursor.timestamp
            writer.append_rebased(cursor, base_timestamp)
    cursor.finish()
    return base_timestamp


def _filter_legacy(
    data: Buffer, position: int, header: BatchHeader, retained: bytes | bytearray, limit: int
) -> bytearray:
    from cordwood.wire import legacy

    records = _legacy_records(data, position, header, limit)
    kept = [record for record, keep in zip(records, retained, strict=True) if keep]
    return legacy.convert(kept, header) if kept else bytearray()
