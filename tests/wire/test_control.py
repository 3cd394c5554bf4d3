"""Control records: markers and Raft's own."""

from __future__ import annotations

import pytest

from cordwood.wire import records
from cordwood.wire.control import (
    ControlType,
    control_batch,
    control_key,
    end_txn_marker,
    parse_control_type,
    parse_end_txn_marker,
)
from cordwood.wire.record import InvalidRecord

T0 = 1_700_000_000_000


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_transactional_control_batch_of_one_record(commit: bool) -> None:
    batch = end_txn_marker(101, T0, 9002, 2, commit, 77, leader_epoch=5)
    header = records.read_header(batch)
    records.check_crc(batch, header)
    assert (header.is_control, header.is_transactional, header.count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9002, 2, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (101, 5, T0)
    (record,) = records.decode_batch(batch)
    assert parse_end_txn_marker(record.key, record.value) == (commit, 77)


def test_a_marker_has_kafkas_bytes() -> None:
    expected = (
        "0000000000000065000000420000000202a18be18f0030000000000000018bcfe568020000018bcfe56802000000000000232a0002"
        "ffffffff000000012000000008000000010c00000000000100"
    )
    assert end_txn_marker(101, T0 + 2, 9002, 2, True, 1, leader_epoch=2).hex() == expected


def test_a_snapshot_may_begin_with_several_control_records() -> None:
    contents = [(ControlType.SNAPSHOT_HEADER, b"header"), (ControlType.KRAFT_VERSION, b"version")]
    batch = control_batch(contents, base_offset=7, timestamp=T0, leader_epoch=3)
    header = records.read_header(batch)
    assert (header.is_control, header.is_transactional, header.has_producer_id) == (True, False, False)
    decoded = records.decode_batch(batch)
    assert [(parse_control_type(record.key), record.value) for record in decoded] == contents
    assert [record.offset for record in decoded] == [7, 8]


@pytest.mark.parametrize("control_type", ControlType)
def test_every_type_has_its_key(control_type: ControlType) -> None:
    assert parse_control_type(control_key(control_type)) is control_type


def test_a_type_from_the_future_is_skipped() -> None:
    assert parse_control_type(b"\x00\x00\x00\x63") is None
    assert parse_control_type(b"\x00\x01\x00\x01more") is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_key_that_cannot_be_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x01"])
def test_a_marker_that_cannot_be_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_end_txn_marker(control_key(ControlType.COMMIT), value)
    with pytest.raises(InvalidRecord, match="not a transaction marker"):
        parse_end_txn_marker(control_key(ControlType.LEADER_CHANGE), b"\x00\x00\x00\x00\x00\x01")
