"""Validates a batch for a leader, and assigns offsets, epoch, timestamp and codec."""

from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc, read_header, stamp, stamp_max_timestamp
from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import NO_TIMESTAMP, CorruptBatch, InvalidRecord, Record, RecordScan
from cordwood.wire.record_checks import accept_plain, scan_records
from cordwood.wire.records import decode_batch, encode_batch, recompress

from .config import MAX_INT64, LogConfig

# Limit of a batch's decompressed size; more is treated as an attack.
DECOMPRESSED_LIMIT_BYTES = 128 * 1024 * 1024
_SHOWN_RECORD_ERRORS = 3


def accept_batch(
    data: Buffer, next_offset: int, leader_epoch: int, config: LogConfig, origin: AppendOrigin, now_ms: int
) -> tuple[Buffer, BatchHeader]:
    """Validates the one batch in `data` for `next_offset`, and returns it ready to be written, with its header; raises
    Refusal.

    Stamps a writable buffer in place; creates a new one if the batch has to be rewritten.
    """
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    if latest > MAX_INT64:
        latest = MAX_INT64
    if config.keeps_batches and origin is not AppendOrigin.RAFT_LEADER:
        try:
            accepted = accept_plain(
                data, next_offset, leader_epoch, config.max_message_bytes, config.compact, earliest, latest
            )
        except (CorruptBatch, InvalidRecord):
            # The general path decides with which error the batch is refused.
            accepted = None
        if accepted is not None:
            return data, accepted
    try:
        header = _only_batch(data)
        _check_header(data, header, config, origin)
        scan = scan_records(
            data,
            0,
            header,
            key_required=config.compact and not header.is_control,
            min_timestamp=earliest,
            max_timestamp=latest,
            limit=DECOMPRESSED_LIMIT_BYTES,
        )
    except CorruptBatch as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    except InvalidRecord as error:
        raise Refusal(ErrorCode.INVALID_RECORD, str(error)) from error
    if scan.missing_keys or scan.bad_timestamps or header.is_log_append_time:
        _refuse_records(header, scan, config, earliest, latest)

    batch: bytearray | memoryview
    rewritten = _rewritten(data, header, scan, config)
    if rewritten is None:
        batch = _writable(data, header)
    else:
        batch, header = rewritten, read_header(rewritten)
        if header.size > config.max_message_bytes and origin is not AppendOrigin.RAFT_LEADER:
            raise _too_large(header.size, config)
    if config.uses_log_append_time:
        stamp_max_timestamp(batch, 0, now_ms, True)
    elif header.max_timestamp != scan.max_timestamp or header.is_log_append_time:
        stamp_max_timestamp(batch, 0, scan.max_timestamp, False)
    stamp(batch, 0, next_offset, leader_epoch)
    return batch, read_header(batch)


def _only_batch(data: Buffer) -> BatchHeader:
    # As in Kafka, trailing bytes that are not a batch are ignored; another batch is not.
    headers = [header for _, header in batch_headers(data)]
    if len(headers) != 1:
        raise InvalidRecord(f"an append takes one record batch, not {len(headers)}")
    [header] = headers
    if header.magic < 2:
        raise InvalidRecord(f"record batches of magic {header.magic} cannot be appended, only magic 2")
    return header


def _check_header(data: Buffer, header: BatchHeader, config: LogConfig, origin: AppendOrigin) -> None:
    if origin is AppendOrigin.CLIENT and header.base_offset != 0:
        raise InvalidRecord(f"the base offset of an appended batch is 0, not {header.base_offset}")
    if header.size > config.max_message_bytes and origin is not AppendOrigin.RAFT_LEADER:
        raise _too_large(header.size, config)
    check_crc(data, header)
    if origin is not AppendOrigin.CLIENT:
        return
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        raise InvalidRecord(
            f"the batch holds {header.count} records according to its record count, "
            f"but {header.last_offset_delta + 1} according to its offsets"
        )
    if header.is_control:
        raise InvalidRecord("clients are not allowed to write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecord(f"a batch of producer {header.producer_id} has no sequence number")


def _refuse_records(header: BatchHeader, scan: RecordScan, config: LogConfig, earliest: int, latest: int) -> None:
    """Raises Refusal with the errors of each record; returns if only ignored timestamps are out of range."""
    errors: list[tuple[int, str]] = [
        (index, "a record of a compacted topic needs a key") for index in scan.missing_keys
    ]
    if header.is_log_append_time and (config.uses_log_append_time or scan.max_timestamp == NO_TIMESTAMP):
        bad_times = True
        reason = "a producer must not set the timestamp type to LogAppendTime"
        errors += [(index, reason) for index in range(header.count)]
    elif config.uses_log_append_time:
        bad_times = False
    else:
        bad_times = bool(scan.bad_timestamps)
        errors += [
            (index, f"timestamp {timestamp} is out of range: it should be within [{earliest}, {latest}]")
            for index, timestamp in scan.bad_timestamps
        ]
    if not errors:
        return
    shown = "; ".join(f"record {index}: {reason}" for index, reason in errors[:_SHOWN_RECORD_ERRORS])
    raise Refusal(
        ErrorCode.INVALID_TIMESTAMP if bad_times else ErrorCode.INVALID_RECORD,
        f"{len(errors)} records were rejected, including {shown}",
        tuple(sorted(errors)),
    )


def _rewritten(data: Buffer, header: BatchHeader, scan: RecordScan, config: LogConfig) -> bytearray | None:
    """Returns the batch in the topic's codec, with offsets without gaps; None if no change is needed."""
    target = config.compression_type
    if header.is_control:
        # Markers stay uncompressed; compressing them gains nothing.
        return None
    if not scan.consecutive:
        records = [
            Record(index, record.timestamp, record.key, record.value, record.headers)
            for index, record in enumerate(decode_batch(data, limit=DECOMPRESSED_LIMIT_BYTES))
        ]
        if any(record.timestamp < NO_TIMESTAMP for record in records):
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, "a record has a negative timestamp")
        return encode_batch(
            records,
            codec=header.codec if target is None else target,
            level=config.compression_level,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
    if target is not None and target != header.codec:
        return recompress(data, 0, header, target, config.compression_level, limit=DECOMPRESSED_LIMIT_BYTES)
    return None


def _writable(data: Buffer, header: BatchHeader) -> bytearray | memoryview:
    view = memoryview(data)[: header.size]
    return bytearray(view) if view.readonly else view


def _too_large(size: int, config: LogConfig) -> Refusal:
    return Refusal(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch has {size} bytes, more than max.message.bytes allows ({config.max_message_bytes})",
    )
