"""A batch filled record by record: what it holds, when it is full, whose it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire.compression import Codec
from tests.wire.rooms import Room, in_each_room

contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records_of_a_batch = st.lists(st.tuples(st.integers(-1, 2**41), contents, contents, headers), min_size=1, max_size=30)


@in_each_room
@given(records=records_of_a_batch, codec=st.sampled_from(Codec))
def test_a_builder_and_encode_batch_make_the_same_bytes(room: Room, records: list[Any], codec: Codec) -> None:
    builder = room.batch_builder.BatchBuilder(1_000_000)
    assert [builder.append(*record) for record in records] == list(range(len(records)))
    sealed = builder.seal(codec).stamped(7, 3, 41, True)
    expected = room.records.encode_batch(
        [(offset, *record) for offset, record in enumerate(records)],
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=41,
        transactional=True,
    )
    assert sealed == expected


@in_each_room
@given(limit=st.integers(0, 2000), records=records_of_a_batch)
def test_a_batch_stays_within_its_limit_unless_one_record_is_larger(room: Room, limit: int, records: list[Any]) -> None:
    builder = room.batch_builder.BatchBuilder(limit)
    for index, record in enumerate(records):
        size = builder.size
        if builder.append(*record) == room.batch_builder.FULL:
            assert (builder.count, builder.size) == (index, size)
            break
    assert builder.count == 1 or builder.size <= limit
    sealed = builder.seal()
    assert (sealed.count, sealed.size) == (builder.count, len(sealed.stamped()))


@in_each_room
def test_stamped_bytes_are_not_changed_by_a_later_stamp(room: Room) -> None:
    builder = room.batch_builder.BatchBuilder(1000)
    builder.append(5, b"key", b"value", ())
    sealed = builder.seal(Codec.LZ4)
    first = sealed.stamped(1, 0, 10)
    before = bytes(first)
    second = sealed.stamped(1, 1, 0)
    assert bytes(first) == before
    header = room.records.read_header(second)
    room.records.check_crc(second, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 1, 0)
    assert room.records.decode_batch(second) == room.records.decode_batch(first)


@in_each_room
def test_the_same_stamp_costs_nothing(room: Room) -> None:
    builder = room.batch_builder.BatchBuilder(1000)
    builder.append(5, None, b"value", None)
    sealed = builder.seal()
    assert sealed.stamped(1, 0, 10) is sealed.stamped(1, 0, 10)


@in_each_room
def test_a_batch_without_records_cannot_be_sealed(room: Room) -> None:
    with pytest.raises(ValueError, match="needs a record"):
        room.batch_builder.BatchBuilder(1000).seal()


@in_each_room
def test_a_time_before_1970_is_refused(room: Room) -> None:
    with pytest.raises(ValueError, match="negative timestamp -2"):
        room.batch_builder.BatchBuilder(1000).append(-2, None, None, None)
