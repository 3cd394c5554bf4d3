"""Control records: written by brokers and controllers between the data, and hidden from consumers.

The key says what the record is; the value is a message. Transaction markers are built and read here; the other values
are generated messages (LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord,
VotersRecord), taken and given as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from cordwood.wire.record import InvalidRecord, Record
from cordwood.wire.records import encode_batch

_KEY = struct.Struct(">hh")
_KEY_VERSION = 0
_END_TXN_MARKER = struct.Struct(">hi")
_END_TXN_MARKER_VERSION = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_TYPES = {member.value: member for member in ControlType}


class EndTxnMarker(NamedTuple):
    commit: bool
    coordinator_epoch: int


def control_batch(
    contents: Iterable[tuple[ControlType, bytes]], *, base_offset: int, timestamp: int, leader_epoch: int
) -> bytearray:
    """A batch of control records that no producer wrote, as Raft puts into its log and its snapshots."""
    records = [
        Record(offset, timestamp, control_key(control_type), value)
        for offset, (control_type, value) in enumerate(contents, base_offset)
    ]
    return encode_batch(records, leader_epoch=leader_epoch, control=True)


def end_txn_marker(
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    key = control_key(ControlType.COMMIT if commit else ControlType.ABORT)
    value = _END_TXN_MARKER.pack(_END_TXN_MARKER_VERSION, coordinator_epoch)
    return encode_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(_KEY_VERSION, control_type)


def parse_control_type(key: bytes | None) -> ControlType | None:
    """Returns the type of a control record; None for an unknown newer type, which readers skip."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"a control record's key has {_KEY.size} bytes or more, this one is {key!r}")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record's key has version {version}")
    return _TYPES.get(control_type)


def parse_end_txn_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    """Decodes a transaction marker. Later versions may have more fields after those of version 0."""
    control_type = parse_control_type(key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"a control record of type {control_type} is not a transaction marker")
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise InvalidRecord(f"a transaction marker has {_END_TXN_MARKER.size} bytes or more, this one is {value!r}")
    version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
    if version < _END_TXN_MARKER_VERSION:
        raise InvalidRecord(f"a transaction marker has version {version}")
    return EndTxnMarker(control_type is ControlType.COMMIT, coordinator_epoch)
