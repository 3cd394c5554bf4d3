"""Records of a batch as a consumer takes them: some at a time, each decoded once; in both rooms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire.compression import Codec
from cordwood.wire.record import ConsumerRecord, InvalidRecord, Record
from tests.wire.rooms import Room, in_each_room

RECORDS = [Record(5 + number * 2, 100 + number, b"k%d" % number, None, (("h", b"1"),)) for number in range(5)]


def expected(record: Record, timestamp_type: int = 0) -> ConsumerRecord:
    return ConsumerRecord(
        "t", 3, record.offset, record.timestamp, record.key, record.value, record.headers, timestamp_type, 7
    )


@in_each_room
@given(data=st.data())
def test_however_a_batch_is_cut_its_records_come_once_and_in_order(room: Room, data: st.DataObject) -> None:
    batch = room.records.encode_batch(RECORDS, leader_epoch=7, codec=data.draw(st.sampled_from(list(Codec))))
    reader = room.records.BatchReader(batch, 0, room.records.read_header(batch), "t", 3, 0)
    taken: list[ConsumerRecord] = []
    while reader.left:
        most = data.draw(st.integers(1, 4))
        found = reader.take(most)
        assert len(found) <= most
        taken += found
    assert taken == [expected(record) for record in RECORDS]
    assert reader.take(1) == []


@in_each_room
def test_records_before_the_start_are_skipped_and_do_not_count(room: Room) -> None:
    batch = room.records.encode_batch(RECORDS, leader_epoch=7)
    reader = room.records.BatchReader(batch, 0, room.records.read_header(batch), "t", 3, 8)
    assert reader.take(2) == [expected(record) for record in RECORDS[2:4]]
    assert reader.left == 1


@in_each_room
def test_log_append_time_is_reported(room: Room) -> None:
    batch = room.records.encode_batch(RECORDS[:1], leader_epoch=7, log_append_time=999)
    reader = room.records.BatchReader(batch, 0, room.records.read_header(batch), "t", 3, 0)
    assert reader.take(1) == [expected(RECORDS[0]._replace(timestamp=999), timestamp_type=1)]


@in_each_room
def test_an_emptied_batch_has_nothing_to_take(room: Room) -> None:
    header = room.records.read_header(room.records.encode_batch(RECORDS))
    emptied = room.records.empty_batch(header)
    reader = room.records.BatchReader(emptied, 0, room.records.read_header(emptied), "t", 3, 0)
    assert (reader.left, reader.take(5)) == (0, [])


@in_each_room
def test_bytes_after_the_last_record_are_refused(room: Room) -> None:
    header = room.records.read_header(room.records.encode_batch(RECORDS))
    longer = bytes(room.records.encode_batch([*RECORDS, RECORDS[-1]._replace(offset=99)]))
    # The count says one record less than there are.
    cut = longer[:57] + header.count.to_bytes(4, "big") + longer[61:]
    reader = room.records.BatchReader(cut, 0, room.records.read_header(cut), "t", 3, 0)
    with pytest.raises(InvalidRecord, match="follow the last record"):
        reader.take(10)
