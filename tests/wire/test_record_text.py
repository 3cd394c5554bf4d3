"""Records as text: what formatting them one by one would give; in both rooms."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.cli.records.record_format import JSON_LAYOUT
from cordwood.wire.compression import Codec
from cordwood.wire.record import ConsumerRecord, InvalidRecord, Record
from cordwood.wire.record_text import MAX_OFFSET, TextField
from tests.wire.record_texts import json_of, text_of
from tests.wire.rooms import Room, in_each_room

pytestmark = in_each_room

# Text of all kinds, and bytes that are nearly text.
contents = st.none() | st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary()
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
rows = st.builds(
    Record,
    st.just(0),
    st.just(-1) | st.integers(0, 2**63 - 1),
    contents,
    contents,
    st.lists(st.tuples(names, contents), max_size=3).map(tuple),
)
layouts = st.lists(st.sampled_from(TextField) | st.binary(max_size=3), max_size=8)


def reader(room: Room, records: list[Record], start_offset: int = 0, **options: Any) -> Any:
    batch = room.records.encode_batch(records, leader_epoch=7, **options)
    return room.records.BatchReader(batch, 0, room.records.read_header(batch), 't\n"é', 3, start_offset)


def placed(record: Record) -> ConsumerRecord:
    return ConsumerRecord('t\n"é', 3, *record, 0, 7)


@given(values=st.lists(rows, min_size=1, max_size=5), layout=layouts, null=st.binary(max_size=2), data=st.data())
def test_text_is_that_of_each_record_by_itself(
    room: Room, values: list[Record], layout: list[bytes | TextField], null: bytes, data: st.DataObject
) -> None:
    records = [value._replace(offset=index) for index, value in enumerate(values)]
    batch = reader(room, records, codec=data.draw(st.sampled_from(list(Codec))))
    text = room.record_text.RecordText(layout, null)
    pieces, written = [], 0
    while batch.left:
        written += text.read(batch, data.draw(st.integers(1, 3)), MAX_OFFSET)
        pieces.append(bytes(text.take()))
    assert b"".join(pieces) == b"".join(text_of(layout, null, placed(record)) for record in records)
    assert (written, batch.next_offset) == (len(records), records[-1].offset + 1)
    assert text.take() == b""


@given(value=contents)
@example(value=b"\xed\xa0\x80")  # a surrogate
@example(value=b"\xed\x9f\xbf\xee\x80\x80")  # what surrounds the surrogates
@example(value=b"\xc0\xaf")  # longer than need be
@example(value=b"\xe0\x9f\xbf")
@example(value=b"\xe0\xa0\x80")
@example(value=b"\xf0\x8f\xbf\xbf")
@example(value=b"\xf0\x90\x80\x80")
@example(value=b"\xf4\x8f\xbf\xbf")  # the last character that there is
@example(value=b"\xf4\x90\x80\x80")
@example(value=b"\xf5\x80\x80\x80")
@example(value=b"\x80")
@example(value=b"\xe2\x82")  # cut off
@example(value=b"ok\xe2\x82(")
@example(value=bytes(range(0x80)))
def test_json_equals_pythons(room: Room, value: bytes | None) -> None:
    record = Record(5, 9, value, value, (("h", value),))
    text = room.record_text.RecordText(JSON_LAYOUT)
    text.read(reader(room, [record]), 1, MAX_OFFSET)
    line = bytes(text.take())
    assert line == json.dumps(json_of(placed(record)), ensure_ascii=False).encode() + b"\n"


def test_names_of_headers_that_are_not_utf8_are_replaced(room: Room) -> None:
    batch = bytearray(room.records.encode_batch([Record(0, 1, None, None, (("hé", b"1"),))]))
    batch[batch.index("é".encode())] = 0xFF
    records = room.records.BatchReader(bytes(batch), 0, room.records.read_header(batch), "t", 0, 0)
    text = room.record_text.RecordText([TextField.JSON_HEADERS])
    text.read(records, 1, MAX_OFFSET)
    assert json.loads(bytes(text.take())) == [{"name": "h\ufffd\ufffd", "value": "1"}]


def test_only_records_between_start_and_end_are_written(room: Room) -> None:
    records = [Record(offset, 0, None, b"") for offset in (3, 4, 6, 8)]
    batch = reader(room, records, start_offset=4)
    text = room.record_text.RecordText([TextField.OFFSET, b" "])
    assert text.read(batch, 10, 8) == 2
    assert (bytes(text.take()), batch.left, batch.next_offset) == (b"4 6 ", 0, 9)


def test_values_of_any_size_fit(room: Room) -> None:
    value = b'"\x00\xc3\xa9' * 100_000
    text = room.record_text.RecordText([TextField.VALUE, TextField.JSON_VALUE])
    text.read(reader(room, [Record(0, 0, None, value)]), 1, MAX_OFFSET)
    assert bytes(text.take()) == value + b'"value": ' + json.dumps(value.decode(), ensure_ascii=False).encode()


def test_undecodable_input_is_refused(room: Room) -> None:
    header = room.records.read_header(room.records.encode_batch([Record(0, 0, None, b"v")]))
    broken = bytearray(room.records.encode_batch([Record(0, 0, None, b"v")]))
    broken[61] = 2 * 60
    text = room.record_text.RecordText([TextField.VALUE])
    with pytest.raises(InvalidRecord):
        text.read(room.records.BatchReader(bytes(broken), 0, header, "t", 0, 0), 1, MAX_OFFSET)
