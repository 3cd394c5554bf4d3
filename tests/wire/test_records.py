"""Batches of magic 2: their headers, their records, and what is done to them between a producer and a consumer."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire.compression import Codec
from cordwood.wire.record import CorruptBatch, InvalidRecord, Record
from tests.wire.rooms import Room, in_each_room

pytestmark = in_each_room

T0 = 1_700_000_000_000
LIMIT = 1 << 20
ANY_TIME = {"min_timestamp": -(2**63), "max_timestamp": 2**63 - 1}

contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, min_size: int = 1) -> list[Record]:
    count = draw(st.integers(min_size, 12))
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(count):
        timestamp = draw(st.just(-1) | st.integers(0, 2**42))
        records.append(Record(offset, timestamp, draw(contents), draw(contents), draw(headers)))
        offset += draw(st.integers(1, 300))
    return records


def some_records(count: int, first: int = 100) -> list[Record]:
    return [
        Record(first + i, T0 + i, b"key%d" % i, b"value%d" % i, (("h", b"x"),) if i % 2 else ()) for i in range(count)
    ]


def with_right_crc(batch: bytes | bytearray) -> bytearray:
    fixed = bytearray(batch)
    struct.pack_into(">I", fixed, 17, crc32c(memoryview(fixed)[21:]))
    return fixed


def batch_of_payload(room: Room, payload: bytes, count: int) -> bytearray:
    """A batch around bytes that need not be records."""
    batch = room.records.encode_batch([Record(0, T0, None, b"", ())])
    raw = batch[:61] + payload
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">i", raw, 57, count)
    return with_right_crc(raw)


def scan(room: Room, batch: bytes | bytearray, **options: Any) -> Any:
    header = room.records.read_header(batch)
    arguments: dict[str, Any] = {"key_required": False, "limit": LIMIT, **ANY_TIME, **options}
    return room.record_checks.scan_records(batch, 0, header, **arguments)


# Headers


def test_a_header_reads_as_it_was_written(room: Room) -> None:
    batch = room.records.encode_batch(
        some_records(3),
        leader_epoch=7,
        codec=Codec.NONE,
        producer_id=2**62,
        producer_epoch=32767,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    header = room.records.read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.size, header.magic, header.leader_epoch, header.count) == (len(batch), 2, 7, 3)
    assert (header.base_timestamp, header.max_timestamp) == (T0, T0 + 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**62, 32767, 2**31 - 2)
    assert header.last_sequence == 0  # it wraps
    assert (header.is_transactional, header.is_control, header.is_compressed) == (True, False, False)
    assert (header.is_log_append_time, header.has_producer_id, header.delete_horizon_ms) == (False, True, None)
    assert header.crc == crc32c(bytes(batch[21:]))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_any_buffer_can_be_read(room: Room, wrap: Callable[[bytes], Any]) -> None:
    records = some_records(4)
    data = wrap(b"????" + bytes(room.records.encode_batch(records)))
    header = room.records.read_header(data, 4)
    room.records.check_crc(data, header, 4)
    assert room.records.decode_batch(data, 4) == records


def test_a_header_needs_only_its_own_bytes(room: Room) -> None:
    batch = room.records.encode_batch(some_records(3))
    assert room.records.read_header(batch[:61]).size == len(batch)
    for length in range(61):
        with pytest.raises(CorruptBatch):
            room.records.read_header(batch[:length])


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(room: Room, magic: int) -> None:
    batch = room.records.encode_batch(some_records(1))
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        room.records.read_header(batch)
    with pytest.raises(CorruptBatch, match="magic"):
        list(room.records.batch_headers(batch))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48])
def test_a_size_below_the_header_is_corrupt(room: Room, length: int) -> None:
    batch = room.records.encode_batch(some_records(1))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch):
        room.records.read_header(batch)
    with pytest.raises(CorruptBatch):
        room.records.whole_batches_length(batch)


def test_headers_are_found_up_to_a_torn_batch(room: Room) -> None:
    one, two = (room.records.encode_batch(some_records(n, first)) for n, first in ((2, 0), (3, 2)))
    whole = bytes(one + two)
    for cut in range(len(two)):
        data = whole + bytes(two[:cut])
        found = list(room.records.batch_headers(data))
        assert [(position, header.base_offset) for position, header in found] == [(0, 0), (len(one), 2)]
        assert room.records.whole_batches_length(data) == len(whole)
    assert [p for p, _ in room.records.batch_headers(whole, len(one))] == [len(one)]


def test_every_bit_under_the_checksum_counts(room: Room) -> None:
    batch = bytes(room.records.encode_batch(some_records(2)))
    for byte in range(17, len(batch)):
        flipped = bytearray(batch)
        flipped[byte] ^= 1 << byte % 8
        with pytest.raises(CorruptBatch):
            room.records.check_crc(flipped, room.records.read_header(flipped))


def test_a_cut_batch_has_no_right_checksum(room: Room) -> None:
    batch = room.records.encode_batch(some_records(2))
    with pytest.raises(CorruptBatch, match="cut"):
        room.records.check_crc(batch[:-1], room.records.read_header(batch))


def test_a_leader_stamps_without_touching_the_checksum(room: Room) -> None:
    data = bytearray(5) + room.records.encode_batch(some_records(2))
    room.records.stamp(data, 5, 2**40, 9)
    header = room.records.read_header(data, 5)
    room.records.check_crc(data, header, 5)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert [record.offset for record in room.records.decode_batch(data, 5)] == [2**40, 2**40 + 1]


def test_log_append_time_is_stamped_with_a_new_checksum(room: Room) -> None:
    data = bytearray(5) + room.records.encode_batch(some_records(2)) + b"next"
    room.records.stamp_max_timestamp(data, 5, T0 + 999, True)
    header = room.records.read_header(data, 5)
    room.records.check_crc(data, header, 5)
    assert (header.is_log_append_time, header.max_timestamp, header.base_timestamp) == (True, T0 + 999, T0)
    assert [record.timestamp for record in room.records.decode_batch(data, 5)] == [T0 + 999] * 2
    room.records.stamp_max_timestamp(data, 5, T0 + 1, False)
    assert [record.timestamp for record in room.records.decode_batch(data, 5)] == [T0, T0 + 1]
    assert data.endswith(b"next")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused_on_use(room: Room, codec: int) -> None:
    batch = room.records.encode_batch(some_records(2))
    batch[22] = codec
    batch = with_right_crc(batch)
    header = room.records.read_header(batch)
    room.records.check_crc(batch, header)
    assert header.is_compressed
    refusing: list[Callable[[], object]] = [
        lambda: header.codec,
        lambda: room.records.decode_batch(batch),
        lambda: scan(room, batch),
    ]
    for refuse in refusing:
        with pytest.raises(InvalidRecord, match="codec"):
            refuse()


# Round trips


@pytest.mark.parametrize("codec", Codec)
@given(records=record_lists())
def test_records_come_back_as_they_were(room: Room, codec: Codec, records: list[Record]) -> None:
    batch = room.records.encode_batch(records, codec=codec)
    room.records.check_crc(batch, room.records.read_header(batch))
    assert room.records.decode_batch(batch) == records


@given(records=record_lists(), horizon=st.integers(0, 2**42))
def test_times_survive_a_delete_horizon(room: Room, records: list[Record], horizon: int) -> None:
    batch = room.records.encode_batch(records, delete_horizon_ms=horizon)
    header = room.records.read_header(batch)
    assert header.delete_horizon_ms == header.base_timestamp == horizon
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert room.records.decode_batch(batch) == records


@given(records=record_lists())
def test_both_rooms_write_the_same_bytes(room: Room, records: list[Record]) -> None:
    from cordwood.wire import records as ours

    assert room.records.encode_batch(records) == ours.encode_batch(records)


def test_offsets_must_grow_and_fit(room: Room) -> None:
    for offsets in ([5, 5], [5, 4], [0, 2**31]):
        with pytest.raises(ValueError, match="cannot follow"):
            room.records.encode_batch([Record(offset, T0, None, None, ()) for offset in offsets])
    with pytest.raises(ValueError, match="timestamp"):
        room.records.encode_batch([Record(0, -2, None, None, ())])
    with pytest.raises(ValueError, match="needs a record"):
        room.records.encode_batch([])


def test_a_header_key_that_is_not_utf8_is_mended_as_java_does(room: Room) -> None:
    # attributes, time, offset, null key and value, one header: a key of three bytes and no value
    payload = bytes.fromhex("16 00 00 00 01 01 02 06 61ff62 01")
    (record,) = room.records.decode_batch(batch_of_payload(room, payload, 1))
    assert record.headers == (("a\ufffdb", None),)


# Checks of the leader


def test_a_scan_finds_everything_that_a_leader_checks(room: Room) -> None:
    records = [
        Record(0, T0, b"k", b"v", ()),
        Record(1, T0 + 50, None, b"v", ()),
        Record(2, -1, b"k", None, ()),
        Record(3, T0 - 50, None, None, ()),
    ]
    batch = room.records.encode_batch(records, codec=Codec.ZSTD)
    found = scan(room, batch, key_required=True, min_timestamp=T0 - 10, max_timestamp=T0 + 10)
    assert found.max_timestamp == T0 + 50
    assert found.missing_keys == [1, 3]
    assert found.bad_timestamps == [(1, T0 + 50), (3, T0 - 50)]
    assert found.consecutive
    assert scan(room, batch).missing_keys == []


def test_a_scan_reports_gaps_in_the_offsets(room: Room) -> None:
    gapped = [Record(0, T0, None, None, ()), Record(2, T0, None, None, ())]
    assert not scan(room, room.records.encode_batch(gapped)).consecutive


def test_records_without_times_have_no_largest_one(room: Room) -> None:
    assert scan(room, room.records.encode_batch([Record(0, -1, None, None, ())])).max_timestamp == -1


# Bytes made to do harm


def readers(room: Room, batch: bytes | bytearray, limit: int = LIMIT) -> list[Callable[[], object]]:
    records = room.records

    def filtered() -> object:
        header = records.read_header(batch)
        mask = bytes([1, 0] * (min(max(header.count, 0), 1000) // 2) + [1] * (header.count % 2))
        if len(mask) != header.count:
            raise InvalidRecord("no mask fits")
        return records.filter_batch(batch, 0, header, mask, delete_horizon_ms=5, limit=limit)

    return [
        lambda: records.decode_batch(batch, limit=limit),
        lambda: scan(room, batch, limit=limit),
        lambda: records.record_keys(batch, 0, records.read_header(batch), limit=limit),
        filtered,
        lambda: records.recompress(batch, 0, records.read_header(batch), Codec.NONE, None, limit=limit),
        lambda: room.columns.decode_columns(batch, headers=True, limit=limit),
    ]


@pytest.mark.parametrize("codec", Codec)
@given(records=record_lists(), data=st.data())
def test_flipped_bits_raise_the_two_exceptions_and_nothing_else(
    room: Room, codec: Codec, records: list[Record], data: st.DataObject
) -> None:
    batch = room.records.encode_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(16 * 8, len(batch) * 8 - 1))
        batch[bit // 8] ^= 1 << bit % 8
    batch = with_right_crc(batch)
    for read in readers(room, batch):
        with suppress(CorruptBatch, InvalidRecord):
            read()


@given(payload=st.binary(max_size=60), count=st.integers(-5, 20))
def test_random_payloads_raise_the_two_exceptions_and_nothing_else(room: Room, payload: bytes, count: int) -> None:
    for read in readers(room, batch_of_payload(room, payload, count)):
        with suppress(CorruptBatch, InvalidRecord):
            read()


@given(payload=st.binary(max_size=60), count=st.integers(1, 6))
def test_both_rooms_agree_on_any_payload(room: Room, payload: bytes, count: int) -> None:
    from cordwood.wire import records as ours

    batch = batch_of_payload(room, payload, count)
    assert outcome(room.records, batch) == outcome(ours, batch)


def outcome(records: Any, batch: bytearray) -> object:
    try:
        return records.decode_batch(batch)
    except InvalidRecord as error:
        return str(error)


BROKEN_PAYLOADS = {
    "the count is negative": (b"\x0c\x00\x00\x00\x01\x01\x00", -1),
    "the count is too high for the bytes": (b"\x0c\x00\x00\x00\x01\x01\x00", 2),
    "the count is too low": (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1),
    "a record is larger than what is left": (b"\x0e\x00\x00\x00\x01\x01\x00", 1),
    "a record has a negative size": (b"\x0b\x00\x00\x00\x01\x01\x00", 1),
    "a record has bytes after its headers": (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),
    "a record has another one in its size": (b"\x1a\x00\x00\x00\x01\x01\x00" + b"\x0c\x00\x00\x00\x01\x01\x00", 2),
    "a key reaches past the record": (b"\x0c\x00\x00\x00\x08\x01\x00", 1),
    "a value reaches past the record": (b"\x0c\x00\x00\x00\x01\x08\x00", 1),
    "the number of headers is negative": (b"\x0c\x00\x00\x00\x01\x01\x01", 1),
    "there are more headers than bytes": (b"\x0c\x00\x00\x00\x01\x01\x7e", 1),
    "a header has a null key": (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),
    "a number has six bytes": (b"\x16\x00\x00\xff\xff\xff\xff\xff\x00\x01\x01\x00", 1),
    "a time has eleven bytes": (b"\x20\x00" + b"\xff" * 10 + b"\x00\x00\x01\x01\x00", 1),
    "a number does not end": (b"\x0c\x00\x00\x00\x01\x01\x80", 1),
}


@pytest.mark.parametrize("why", BROKEN_PAYLOADS)
def test_contents_that_do_not_fit_are_invalid(room: Room, why: str) -> None:
    batch = batch_of_payload(room, *BROKEN_PAYLOADS[why])
    for read in readers(room, batch)[:2]:
        with pytest.raises(InvalidRecord):
            read()


def test_a_null_may_have_any_negative_size(room: Room) -> None:
    (record,) = room.records.decode_batch(batch_of_payload(room, b"\x0c\x00\x00\x00\x03\x05\x00", 1))
    assert (record.key, record.value) == (None, None)


def test_a_number_may_be_longer_than_it_has_to(room: Room) -> None:
    payload = b"\x12\x00\x82\x80\x00\x82\x00\x01\x01\x00"
    (record,) = room.records.decode_batch(batch_of_payload(room, payload, 1))
    assert (record.offset, record.timestamp) == (1, T0 + 1)


def test_bits_beyond_a_number_are_dropped_as_in_java(room: Room) -> None:
    payload = b"\x26\x00" + b"\x82" + b"\x80" * 8 + b"\x7e" + b"\x82\x80\x80\x80\x70" + b"\x01\x01\x00"
    (record,) = room.records.decode_batch(batch_of_payload(room, payload, 1))
    assert (record.offset, record.timestamp) == (1, T0 + 1)


def test_times_may_be_as_far_apart_as_64_bits_allow(room: Room) -> None:
    records = [Record(0, -1, None, None, ()), Record(1, 2**63 - 1, None, None, ()), Record(2, 0, None, None, ())]
    batch = room.records.encode_batch(records)
    assert room.records.decode_batch(batch) == records
    assert room.records.decode_batch(kept(room, batch, b"\x01\x01\x00")) == records[:2]
    assert room.columns.decode_columns(batch).length == 3


def test_a_time_out_of_64_bits_wraps_as_javas(room: Room) -> None:
    payload = b"\x1e\x00" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00\x01\x01\x00"
    (record,) = room.records.decode_batch(batch_of_payload(room, payload, 1))
    assert record.timestamp == T0 + 2**63 - 1 - 2**64


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_more_than_the_limit_is_invalid(room: Room, codec: Codec) -> None:
    batch = room.records.encode_batch([Record(0, T0, None, bytes(200_000), ())], codec=codec)
    assert len(room.records.decode_batch(batch, limit=200_020)) == 1
    for read in readers(room, batch, limit=100_000):
        with pytest.raises(InvalidRecord, match="limit"):
            read()


def test_a_batch_that_claims_many_records_allocates_nothing_for_them(room: Room) -> None:
    batch = batch_of_payload(room, b"\x0c\x00\x00\x00\x01\x01\x00", 2**31 - 1)
    for read in readers(room, batch)[:3]:
        with pytest.raises(InvalidRecord, match="do not fit"):
            read()


# Compaction


def kept(room: Room, batch: bytes | bytearray, mask: bytes, **options: Any) -> bytearray:
    header = room.records.read_header(batch)
    arguments: dict[str, Any] = {"delete_horizon_ms": None, "limit": LIMIT, **options}
    result: bytearray = room.records.filter_batch(batch, 0, header, mask, **arguments)
    return result


@pytest.mark.parametrize("codec", Codec)
@given(records=record_lists(), data=st.data())
def test_a_filtered_batch_has_exactly_the_retained_records(
    room: Room, codec: Codec, records: list[Record], data: st.DataObject
) -> None:
    mask = bytes(data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records))))
    horizon = data.draw(st.none() | st.integers(0, 2**42))
    batch = room.records.encode_batch(records, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    left = kept(room, batch, mask, delete_horizon_ms=horizon)
    expected = [record for record, keep in zip(records, mask, strict=True) if keep]
    if not expected:
        assert left == b""
        return
    before, after = room.records.read_header(batch), room.records.read_header(left)
    room.records.check_crc(left, after)
    assert room.records.decode_batch(left) == expected
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset)
    assert (after.base_sequence, after.last_sequence) == (before.base_sequence, before.last_sequence)
    assert after.max_timestamp == max(record.timestamp for record in expected)
    assert after.delete_horizon_ms == horizon
    assert after.codec == codec


def test_a_batch_that_keeps_everything_keeps_its_bytes(room: Room) -> None:
    batch = room.records.encode_batch(some_records(3), codec=Codec.GZIP, level=1)
    assert kept(room, batch, b"\x01\x01\x01") == batch


def test_a_horizon_stays_once_it_is_set(room: Room) -> None:
    batch = room.records.encode_batch(some_records(2), delete_horizon_ms=T0 + 5)
    left = kept(room, batch, b"\x00\x01")
    assert room.records.read_header(left).delete_horizon_ms == T0 + 5
    assert room.records.decode_batch(left) == some_records(2)[1:]


def test_log_append_time_survives_a_filter(room: Room) -> None:
    batch = room.records.encode_batch(some_records(3), log_append_time=T0 + 77)
    left = kept(room, batch, b"\x00\x01\x01")
    header = room.records.read_header(left)
    assert header.is_log_append_time
    assert [record.timestamp for record in room.records.decode_batch(left)] == [T0 + 77] * 2


def test_a_mask_of_another_length_is_a_mistake_of_the_caller(room: Room) -> None:
    with pytest.raises(ValueError, match="retain flags"):
        kept(room, room.records.encode_batch(some_records(3)), b"\x01\x00")


def test_an_emptied_batch_keeps_offsets_sequence_and_flags(room: Room) -> None:
    batch = room.records.encode_batch(
        some_records(3), codec=Codec.LZ4, producer_id=4, producer_epoch=2, base_sequence=9, transactional=True
    )
    before = room.records.read_header(batch)
    after = room.records.read_header(room.records.empty_batch(before))
    assert (after.size, after.count, after.base_timestamp) == (61, 0, -1)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (100, 102, 11)
    assert (after.max_timestamp, after.is_transactional, after.is_compressed) == (T0 + 2, True, False)
    assert room.records.decode_batch(room.records.empty_batch(before)) == []


def cleaned(room: Room, batch: bytes | bytearray, mask: bytes, **options: Any) -> bytearray:
    arguments: dict[str, Any] = {
        "keep_empty": False,
        "marks_empty_transaction": False,
        "delete_horizon_ms": T0 + 1000,
        "limit": LIMIT,
        **options,
    }
    result: bytearray = room.records.clean_batch(batch, 0, room.records.read_header(batch), mask, **arguments)
    return result


def test_cleaning_sets_a_horizon_only_where_a_tombstone_is_kept(room: Room) -> None:
    records = [Record(0, T0, b"a", b"1", ()), Record(1, T0, b"b", None, ()), Record(2, T0, b"c", b"3", ())]
    batch = room.records.encode_batch(records)
    assert room.records.read_header(cleaned(room, batch, b"\x01\x01\x00")).delete_horizon_ms == T0 + 1000
    assert room.records.read_header(cleaned(room, batch, b"\x01\x00\x01")).delete_horizon_ms is None
    again = cleaned(room, batch, b"\x01\x01\x01")
    assert cleaned(room, again, b"\x01\x01\x01", delete_horizon_ms=T0 + 9999) == again


def test_cleaning_sets_a_horizon_on_the_marker_of_an_empty_transaction(room: Room) -> None:
    batch = room.records.encode_batch(some_records(1))
    left = cleaned(room, batch, b"\x01", marks_empty_transaction=True)
    assert room.records.read_header(left).delete_horizon_ms == T0 + 1000


def test_cleaning_keeps_an_emptied_batch_only_on_request(room: Room) -> None:
    batch = room.records.encode_batch(some_records(2))
    assert cleaned(room, batch, b"\x00\x00") == b""
    left = cleaned(room, batch, b"\x00\x00", keep_empty=True)
    assert left == room.records.empty_batch(room.records.read_header(batch))


@given(records=record_lists())
def test_record_keys_have_all_that_compaction_needs(room: Room, records: list[Record]) -> None:
    batch = room.records.encode_batch(records, codec=Codec.SNAPPY)
    found = room.records.record_keys(batch, 0, room.records.read_header(batch), limit=LIMIT)
    assert found == [(record.offset, record.key, record.value is not None) for record in records]


@pytest.mark.parametrize("target", Codec)
@pytest.mark.parametrize("source", Codec)
def test_recompression_changes_only_the_codec(room: Room, source: Codec, target: Codec) -> None:
    records = some_records(20)
    options = {"producer_id": 3, "producer_epoch": 1, "base_sequence": 4, "transactional": True, "leader_epoch": 8}
    batch = room.records.encode_batch(records, codec=source, **options)
    result = room.records.recompress(batch, 0, room.records.read_header(batch), target, None, limit=LIMIT)
    expected = room.records.encode_batch(records, codec=target, **options)
    assert result == expected


# Kafka's own bytes; tools/check_vectors compares every field of them, with the room that is in use


def kafkas_cases() -> list[dict[str, Any]]:
    path = Path(__file__).parent.parent / "vectors" / "record_batches.jsonl.gz"
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def hexed(contents: bytes | None) -> str | None:
    return None if contents is None else contents.hex()


def test_kafkas_batches_are_read_as_kafka_reads_them(room: Room) -> None:
    for case in kafkas_cases():
        data = bytes.fromhex(case["hex"])
        for (position, header), batch in zip(
            room.records.batch_headers(data) if "batches" in case else [], case.get("batches", []), strict=True
        ):
            room.records.check_crc(data, header, position)
            for record, expected in zip(room.records.decode_batch(data, position), batch["records"], strict=True):
                assert (record.offset, record.timestamp) == (expected["offset"], expected["timestamp"]), case["name"]
                assert (hexed(record.key), hexed(record.value)) == (expected["key"], expected["value"])
                assert [[key, hexed(value)] for key, value in record.headers] == expected.get("headers", [])


def test_values_that_kafka_refuses_are_refused(room: Room) -> None:
    def read_all(data: bytes) -> None:
        for position, header in room.records.batch_headers(data):
            room.records.check_crc(data, header, position)
            room.records.decode_batch(data, position)

    for case in kafkas_cases():
        if "refusedAt" in case:
            with pytest.raises((CorruptBatch, InvalidRecord)):
                read_all(bytes.fromhex(case["hex"]))
