"""Formats batches and records as dictionaries with the names that Kafka's own tools use. Bytes are hex."""

import re
from typing import Any

from cordwood.wire.codec import decode
from cordwood.wire.control import ControlType, parse_control_type, parse_end_txn_marker
from cordwood.wire.exceptions import WireError
from cordwood.wire.frames import decode_coordinator_key, decode_coordinator_value, decode_metadata_record
from cordwood.wire.message_json import message_to_json
from cordwood.wire.messages import message_class
from cordwood.wire.records import BatchHeader, InvalidRecord, Record

METADATA_TOPIC = "__cluster_metadata"
COORDINATORS = {
    "__consumer_offsets": "group",
    "__transaction_state": "transaction",
    "__share_group_state": "share",
}
_CONTROL_MESSAGES = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


def describe_batch(header: BatchHeader, position: int, valid: bool, first_offset: int) -> dict[str, Any]:
    """Returns a header's fields. `first_offset` is the one inside a compressed message of magic 0 or 1, whose header
    lacks it."""
    described: dict[str, Any] = {
        "baseOffset": header.base_offset if header.magic >= 2 else first_offset,
        "lastOffset": header.last_offset,
        "position": position,
        "sizeInBytes": header.size,
        "magic": header.magic,
        "crc": header.crc,
        "valid": valid,
        "compression": _compression(header),
        "timestampType": _timestamp_type(header),
        "maxTimestamp": header.max_timestamp,
    }
    if header.magic >= 2:
        described |= {
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
        }
    return described


def describe_record(record: Record, topic: str | None, *, is_control: bool) -> dict[str, Any]:
    """Formats a record. Control records and records of Kafka's internal topics are decoded too."""
    described: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": hex_or_none(record.key),
        "value": hex_or_none(record.value),
    }
    if record.headers:
        described["headers"] = [[name, hex_or_none(value)] for name, value in record.headers]
    try:
        if is_control:
            described["control"] = _control(record)
        elif topic == METADATA_TOPIC and record.value is not None:
            described["decoded"] = _metadata_record(record.value)
        elif topic in COORDINATORS and record.key is not None:
            described["decoded"] = _coordinator_record(COORDINATORS[topic], record.key, record.value)
    except (WireError, InvalidRecord) as error:
        described["undecodable"] = str(error)
    return described


def hex_or_none(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _compression(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except InvalidRecord as error:
        return str(error)


def _timestamp_type(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _control(record: Record) -> dict[str, Any]:
    control_type = parse_control_type(record.key)
    if control_type is None:
        return {"type": "UNKNOWN", "typeId": int.from_bytes((record.key or b"")[2:4], "big", signed=True)}
    described: dict[str, Any] = {"type": control_type.name, "typeId": int(control_type)}
    if control_type in _CONTROL_MESSAGES:
        value = record.value or b""
        version = int.from_bytes(value[:2], "big", signed=True)
        message = decode(message_class(_CONTROL_MESSAGES[control_type]), version, value)
        described["data"] = message_to_json(message, version)
    else:
        described["coordinatorEpoch"] = parse_end_txn_marker(record.key, record.value).coordinator_epoch
    return described


def _metadata_record(value: bytes) -> dict[str, Any]:
    record, version = decode_metadata_record(value)
    return {"type": type(record).__name__, "version": version, "data": message_to_json(record, version)}


def _coordinator_record(coordinator: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    message = decode_coordinator_key(coordinator, key)
    cls = type(message)
    described: dict[str, Any] = {
        "type": _upper_snake(cls.__name__.removesuffix("Key")),
        "key": message_to_json(message, cls.versions.low),
    }
    if value is None:
        return described | {"value": None}
    content, version = decode_coordinator_value(coordinator, cls.record_type, value)
    return described | {"valueVersion": version, "value": message_to_json(content, version)}


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
