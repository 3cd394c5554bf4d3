"""Record batches: each case is a record set as bytes, and what a reader of it sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cordwood.wire import legacy, record_checks, records
from cordwood.wire.codec import decode
from cordwood.wire.compression import Codec
from cordwood.wire.control import (
    ControlType,
    control_batch,
    end_txn_marker,
    parse_control_type,
    parse_end_txn_marker,
)
from cordwood.wire.message_json import message_to_json
from cordwood.wire.messages import message_class
from cordwood.wire.records import BatchHeader, CorruptBatch, InvalidRecord, Record

from . import Mismatch

LIMIT_BYTES = 64 * 1024 * 1024
TIMESTAMP_TYPES = {False: "CreateTime", True: "LogAppendTime"}
LOG_APPEND_TIME_BIT = 0x08
VALUE_MESSAGES = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}
WRITER_DEPENDENT = ("sizeInBytes", "crc")
"""Fields that differ between two compressors of the same records."""


def check(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    if "refusedAt" in case:
        check_refused(data, case["refusedAt"])
        return
    check_read(data, case["batches"])
    check_read(memoryview(bytearray(data)), case["batches"])
    whole = records.whole_batches_length(data)
    same("where the whole batches end", whole, case.get("validBytes", len(data)))
    for position, header in records.batch_headers(data):
        check_written(data[position : position + header.size], header)
    if "filter" in case:
        check_filter(case["filter"], data, case["batches"])


def check_refused(data: bytes, stage: str) -> None:
    try:
        headers = list(records.batch_headers(data))
    except CorruptBatch:
        headers = []
    if not headers:
        # A checksum that cannot be computed is refused as well as a wrong one.
        if stage not in ("batch", "crc"):
            raise Mismatch(f"refused by the framing, not at {stage!r}")
        return
    try:
        for position, header in headers:
            records.check_crc(data, header, position)
    except CorruptBatch:
        same("refused at", "crc", stage)
        return
    readers = {"records": lambda p, _: records.decode_batch(data, p, limit=LIMIT_BYTES), "scan": scanned(data)}
    for name, read in readers.items():
        try:
            for position, header in headers:
                read(position, header)
        except (CorruptBatch, InvalidRecord):
            same("refused at", "records", stage)
        else:
            raise Mismatch(f"not refused by {name}, but must be at {stage!r}")


def scanned(data: bytes) -> Any:
    def scan(position: int, header: BatchHeader) -> None:
        if header.magic < 2:
            records.decode_batch(data, position, limit=LIMIT_BYTES)
        else:
            bounds = {"min_timestamp": -(2**63), "max_timestamp": 2**63 - 1}
            record_checks.scan_records(data, position, header, key_required=False, limit=LIMIT_BYTES, **bounds)

    return scan


def check_read(data: records.Buffer, expected: list[dict[str, Any]]) -> None:
    described = list(describe(data))
    same("number of batches", len(described), len(expected))
    for index, (batch, kafkas) in enumerate(zip(described, expected, strict=True)):
        compare(f"batch {index}", batch, kafkas)


def compare(where: str, ours: dict[str, Any], kafkas: dict[str, Any]) -> None:
    for field in kafkas:
        if field not in ours:
            raise Mismatch(f"{where} has no {field}")
        if field != "records":
            same(f"{where}: {field}", ours[field], kafkas[field])
    if "records" in kafkas:
        same(f"{where}: number of records", len(ours["records"]), len(kafkas["records"]))
        for record, kafkas_record in zip(ours["records"], kafkas["records"], strict=True):
            for field in kafkas_record:
                same(f"{where}, record {record['offset']}: {field}", record.get(field), kafkas_record[field])


def describe(data: records.Buffer) -> Iterator[dict[str, Any]]:
    for position, header in records.batch_headers(data):
        contents = records.decode_batch(data, position, limit=LIMIT_BYTES)
        if header.magic == 2:
            timestamp_type = TIMESTAMP_TYPES[header.is_log_append_time]
            base_offset = header.base_offset
        else:
            timestamp_type = TIMESTAMP_TYPES[header.is_log_append_time] if header.magic else "NoTimestampType"
            base_offset = contents[0].offset
        yield {
            "baseOffset": base_offset,
            "lastOffset": header.last_offset,
            "magic": header.magic,
            "sizeInBytes": header.size,
            "crc": header.crc,
            "valid": is_valid(data, header, position),
            "compression": header.codec.name.lower(),
            "timestampType": timestamp_type,
            "maxTimestamp": header.max_timestamp,
            "baseTimestamp": header.base_timestamp,
            "partitionLeaderEpoch": header.leader_epoch,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "count": header.count,
            "deleteHorizonMs": header.delete_horizon_ms,
            "records": [describe_record(record, header) for record in contents],
        }


def is_valid(data: records.Buffer, header: BatchHeader, position: int) -> bool:
    try:
        records.check_crc(data, header, position)
    except CorruptBatch:
        return False
    return True


def describe_record(record: Record, header: BatchHeader) -> dict[str, Any]:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) % 2**31
    described: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": sequence,
        "key": as_hex(record.key),
        "value": as_hex(record.value),
        "headers": [[name, as_hex(content)] for name, content in record.headers],
    }
    if header.is_control:
        described["control"] = describe_control(record)
    return described


def describe_control(record: Record) -> dict[str, Any]:
    control_type = parse_control_type(record.key)
    if control_type is None or record.value is None:
        raise Mismatch(f"a control record that cannot be: {record}")
    described: dict[str, Any] = {"type": control_type.name, "typeId": control_type.value}
    if control_type in VALUE_MESSAGES:
        cls = message_class(VALUE_MESSAGES[control_type])
        version = int.from_bytes(record.value[:2], "big")
        described["data"] = message_to_json(decode(cls, version, record.value), version)
    else:
        marker = parse_end_txn_marker(record.key, record.value)
        described["coordinatorEpoch"] = marker.coordinator_epoch
    return described


def check_written(batch: bytes, header: BatchHeader) -> None:
    """Decoded batches can be encoded again: to the same bytes if they are not compressed."""
    if header.magic < 2:
        check_legacy_written(batch, header)
        return
    if header.count == 0:
        same("emptied batch", records.empty_batch(header).hex(), batch.hex())
        return
    # The records' own times are hidden behind LogAppendTime, but they are in the bytes.
    unstamped = bytearray(batch)
    unstamped[22] &= ~LOG_APPEND_TIME_BIT
    contents = records.decode_batch(unstamped, limit=LIMIT_BYTES)
    written = records.encode_batch(
        contents,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
    )
    check_same_batch("written batch", written, batch, header)
    if header.is_control and header.delete_horizon_ms is None:
        same("written control batch", control_bytes(contents, header).hex(), batch.hex())
    for codec in Codec:
        recompressed = records.recompress(batch, 0, header, codec, None, limit=LIMIT_BYTES)
        again = records.decode_batch(recompressed, limit=LIMIT_BYTES)
        same(f"records after recompression to {codec.name}", again, records.decode_batch(batch))


def check_same_batch(what: str, written: bytes | bytearray, batch: bytes, header: BatchHeader) -> None:
    if not header.is_compressed:
        same(what, written.hex(), batch.hex())
        return
    (ours,) = describe(written)
    (kafkas,) = describe(batch)
    same(f"{what} is valid", ours["valid"], True)
    compare(what, ours, {field: value for field, value in kafkas.items() if field not in WRITER_DEPENDENT})


def control_bytes(contents: list[Record], header: BatchHeader) -> bytearray:
    first = contents[0]
    if header.is_transactional:
        marker = parse_end_txn_marker(first.key, first.value)
        return end_txn_marker(
            first.offset,
            first.timestamp,
            header.producer_id,
            header.producer_epoch,
            marker.commit,
            marker.coordinator_epoch,
            header.leader_epoch,
        )
    typed = [(parse_control_type(record.key), record.value) for record in contents]
    return control_batch(
        [(control_type, value) for control_type, value in typed if control_type is not None and value is not None],
        base_offset=first.offset,
        timestamp=first.timestamp,
        leader_epoch=header.leader_epoch,
    )


def check_legacy_written(message: bytes, header: BatchHeader) -> None:
    contents = records.decode_batch(message, limit=LIMIT_BYTES)
    if not header.is_compressed:
        (record,) = contents
        written = legacy.encode_message(
            header.magic,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            is_log_append_time=header.is_log_append_time,
        )
        same("written message", written.hex(), message.hex())
    converted = legacy.upconvert(message, limit=LIMIT_BYTES)
    new_header = records.read_header(converted)
    records.check_crc(converted, new_header)
    same("magic after conversion", new_header.magic, 2)
    same("codec after conversion", new_header.codec, header.codec)
    same("records after conversion", records.decode_batch(converted, limit=LIMIT_BYTES), contents)


def check_filter(filter_case: dict[str, Any], data: bytes, expected: list[dict[str, Any]]) -> None:
    source = bytes.fromhex(filter_case["inputHex"])
    written = b"".join(cleaned_batches(source, filter_case))
    if all(batch["compression"] == "none" for batch in expected):
        same("what compaction writes", written.hex(), data.hex())
    cleaned = list(describe(written))
    same("number of cleaned batches", len(cleaned), len(expected))
    for ours, kafkas in zip(cleaned, expected, strict=True):
        compare("cleaned batch", ours, {name: kafkas[name] for name in kafkas if name not in WRITER_DEPENDENT})


def cleaned_batches(source: bytes, filter_case: dict[str, Any]) -> Iterator[bytes | bytearray]:
    retention = filter_case["batchRetention"]
    retained_offsets = set(filter_case["retainedOffsets"])
    for position, header in records.batch_headers(source):
        if retention == "DELETE":
            continue
        keys = records.record_keys(source, position, header, limit=LIMIT_BYTES)
        yield records.clean_batch(
            source,
            position,
            header,
            bytes(offset in retained_offsets for offset, _, _ in keys),
            keep_empty=retention == "RETAIN_EMPTY",
            marks_empty_transaction=filter_case["containsMarkerForEmptyTxn"],
            delete_horizon_ms=filter_case["nowMs"] + filter_case["deleteRetentionMs"],
            limit=LIMIT_BYTES,
        )


def as_hex(contents: bytes | None) -> str | None:
    return None if contents is None else contents.hex()


def same(what: str, ours: Any, kafkas: Any) -> None:
    if ours != kafkas:
        raise Mismatch(f"{what}: {shortened(ours)}, but Kafka has {shortened(kafkas)}")


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
