# cython: language_level=3, annotation_typing=False
"""The checks of a leader on the records of a batch, like Kafka's LogValidator. Compiled, as `records` is."""

from __future__ import annotations

from cordwood.wire.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
    stamp_known,
)
from cordwood.wire.checksum import crc32c
from cordwood.wire.record import NO_TIMESTAMP, Buffer, RecordScan
from cordwood.wire.record_stream import RecordCursor
from cordwood.wire.records import payload


def scan_records(
    data: Buffer,
    position: int,
    header: BatchHeader,
    *,
    key_required: bool,
    min_timestamp: int,
    max_timestamp: int,
    limit: int,
) -> RecordScan:
    """Checks each record of a batch of magic 2 as a leader does.

    Inconsistent contents raise InvalidRecord; problems of single records are in the result.
    """
    cursor = RecordCursor(payload(data, position, header, limit), header)
    return _scan(cursor, key_required, min_timestamp, max_timestamp)


def accept_plain(
    data: Buffer,
    base_offset: int,
    leader_epoch: int,
    max_bytes: int,
    key_required: bool,
    min_timestamp: int,
    max_timestamp: int,
) -> BatchHeader | None:
    """Fast path of a leader's append: one whole, uncompressed batch that needs no change but its stamps.

    Validates the batch, stamps it in place and returns its final header. Returns None, with nothing changed, if the
    general functions are needed. (16 KiB of records: 6 µs instead of 13.)
    """
    header = read_header(data)
    if (
        header.magic != 2
        or header.size != len(data)
        or header.size > max_bytes
        or header.attributes & ~TRANSACTIONAL_BIT
        or header.base_offset != 0
        or header.count <= 0
        or header.last_offset_delta + 1 != header.count
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        return None
    view = memoryview(data)
    if view.readonly or crc32c(view[ATTRIBUTES_POSITION:]) != header.crc:
        return None
    cursor = RecordCursor(view[BATCH_HEADER_SIZE:], header)
    if not _fits(cursor, key_required, min_timestamp, max_timestamp, header.max_timestamp):
        return None
    return stamp_known(view, header, base_offset, leader_epoch)


def _scan(cursor: RecordCursor, key_required: bool, min_timestamp: int, max_timestamp: int) -> RecordScan:
    latest = NO_TIMESTAMP
    missing_keys = []
    bad_timestamps = []
    consecutive = True
    for index in range(cursor.count):
        cursor.advance()
        timestamp = cursor.timestamp
        if timestamp > latest:
            latest = timestamp
        if cursor.offset_delta != index:
            consecutive = False
        if key_required and cursor.key_size < 0:
            missing_keys.append(index)
        if (timestamp < min_timestamp or timestamp > max_timestamp) and timestamp != NO_TIMESTAMP:
            bad_timestamps.append((index, timestamp))
    cursor.finish()
    return RecordScan(latest, missing_keys, bad_timestamps, consecutive)


def _fits(
    cursor: RecordCursor, key_required: bool, min_timestamp: int, max_timestamp: int, expected_latest: int
) -> bool:
    """Returns whether a scan would find no problem and the expected maximum timestamp."""
    latest = NO_TIMESTAMP
    for index in range(cursor.count):
        cursor.advance()
        timestamp = cursor.timestamp
        if timestamp > latest:
            latest = timestamp
        if (
            cursor.offset_delta != index
            or (key_required and cursor.key_size < 0)
            or ((timestamp < min_timestamp or timestamp > max_timestamp) and timestamp != NO_TIMESTAMP)
        ):
            return False
    cursor.finish()
    return latest == expected_latest
