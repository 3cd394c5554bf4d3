"""Columns: the same records as from decode_batch, in Arrow's buffers, and back again."""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.wire import arrow, control, legacy
from cordwood.wire.compression import Codec
from cordwood.wire.record import CorruptBatch, InvalidRecord, Record
from tests.wire.rooms import Room, in_each_room

pytestmark = in_each_room

T0 = 1_700_000_000_000

contents = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple)
rows = st.lists(st.tuples(st.just(-1) | st.integers(0, 2**42), contents, contents, headers), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def _arrow_over_this_room(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "decode_columns", room.columns.decode_columns)
    for name in ("BinaryInput", "HeaderInput", "NumberInput", "encode_columns"):
        monkeypatch.setattr(arrow, name, getattr(room.column_input, name))


def as_records(table: Any) -> list[Record]:
    table.validate(full=True)
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row.get("headers", ())),
        )
        for row in table.to_pylist()
    ]


def numbered(values: list[Any], first: int = 0) -> list[Record]:
    return [Record(first + index, *row) for index, row in enumerate(values)]


@given(values=rows, codec=st.sampled_from(Codec))
def test_columns_have_the_records_of_the_batches(room: Room, values: list[Any], codec: Codec) -> None:
    records = numbered(values)
    half = len(records) // 2
    batches = [room.records.encode_batch(part, codec=codec) for part in (records[:half], records[half:]) if part]
    assert as_records(arrow.to_arrow(b"".join(batches), headers=True)) == records
    without = [record._replace(headers=()) for record in records]
    assert as_records(arrow.to_arrow(b"".join(batches))) == without


@given(values=rows, start=st.integers(0, 25))
def test_records_before_the_wanted_offset_are_dropped(room: Room, values: list[Any], start: int) -> None:
    records = numbered(values)
    table = arrow.to_arrow(room.records.encode_batch(records), start_offset=start, headers=True)
    assert as_records(table) == records[start:]


def test_control_batches_and_torn_ones_are_skipped(room: Room) -> None:
    first, last = (room.records.encode_batch([Record(offset, T0, None, b"v", ())]) for offset in (1, 3))
    marker = control.end_txn_marker(2, T0, 1, 1, True, 1, 1)
    data = first + marker + last + last[:40]
    assert arrow.to_arrow(data).column("offset").to_pylist() == [1, 3]


def test_nothing_gives_an_empty_table(room: Room) -> None:
    table = arrow.to_arrow(b"", headers=True)
    table.validate(full=True)
    assert table.num_rows == 0
    assert table.schema == arrow.schema(headers=True)


def test_legacy_messages_become_columns_too(room: Room) -> None:
    data = b"".join(legacy.encode_message(1, offset, T0, b"k", None) for offset in range(3))
    assert as_records(arrow.to_arrow(data)) == [Record(offset, T0, b"k", None, ()) for offset in range(3)]


def test_a_header_key_that_is_not_utf8_is_mended(room: Room) -> None:
    batch = room.records.encode_batch([Record(0, T0, None, None, (("abc", b"1"),))])
    spoilt = bytes(batch).replace(b"abc", b"a\xffc")
    ((header,),) = arrow.to_arrow(spoilt, headers=True).column("headers").to_pylist()
    assert header == {"key": "a\ufffdc", "value": b"1"}


def test_the_limit_is_for_all_batches_together(room: Room) -> None:
    batch = room.records.encode_batch([Record(0, T0, None, bytes(1000), ())], codec=Codec.ZSTD)
    assert arrow.to_arrow(batch * 3, limit=3100).num_rows == 3
    with pytest.raises(InvalidRecord, match="limit"):
        arrow.to_arrow(batch * 3, limit=2100)


def test_checksums_are_checked_when_requested(room: Room) -> None:
    batch = room.records.encode_batch([Record(0, T0, None, b"value", ())])
    batch[-2] ^= 1
    assert arrow.to_arrow(batch).num_rows == 1
    with pytest.raises(CorruptBatch, match="checksum"):
        arrow.to_arrow(batch, check_crcs=True)


# Encoding

TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


def table_of(values: list[Any], type_: Any) -> dict[str, Any]:
    items = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    lists = [[{"key": key, "value": value} for key, value in row[3]] for row in values]
    return {
        "values": pa.array([row[2] for row in values], type_),
        "keys": pa.array([row[1] for row in values], type_),
        "timestamps": pa.array([row[0] for row in values], pa.int64()),
        "headers": pa.array(lists, items),
    }


def decoded(room: Room, batches: list[bytearray]) -> list[tuple[Any, ...]]:
    found = []
    for batch in batches:
        room.records.check_crc(batch, room.records.read_header(batch))
        found += [tuple(record)[1:] for record in room.records.decode_batch(batch)]
    return found


@given(values=rows, codec=st.sampled_from(Codec), type_=st.sampled_from(TYPES), size=st.integers(0, 400))
def test_arrays_become_batches(room: Room, values: list[Any], codec: Codec, type_: Any, size: int) -> None:
    batches = arrow.from_arrow(**table_of(values, type_), codec=codec, max_batch_bytes=size)
    assert decoded(room, batches) == values


@given(values=rows, data=st.data())
def test_slices_become_batches(room: Room, values: list[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - start))
    type_ = data.draw(st.sampled_from(TYPES))
    sliced = {name: column.slice(start, count) for name, column in table_of(values, type_).items()}
    assert decoded(room, arrow.from_arrow(**sliced)) == values[start : start + count]


@given(values=rows)
def test_chunks_become_batches(room: Room, values: list[Any]) -> None:
    whole = table_of(values, pa.binary())
    half = len(values) // 2
    chunked = {name: pa.chunked_array([column[:half], column[half:]]) for name, column in whole.items()}
    assert decoded(room, arrow.from_arrow(**chunked)) == values


def test_a_batch_is_the_one_that_encode_batch_makes(room: Room) -> None:
    values = [(T0 + i, b"k%d" % i, b"v", (("h", None),)) for i in range(5)]
    options: dict[str, Any] = {"producer_id": 4, "producer_epoch": 1, "base_sequence": 9, "transactional": True}
    (batch,) = arrow.from_arrow(**table_of(values, pa.binary()), **options)
    assert batch == room.records.encode_batch(numbered(values), **options)


def test_batches_are_full_but_not_too_large(room: Room) -> None:
    values = pa.array([b"x" * 100] * 1000)
    batches = arrow.from_arrow(values, max_batch_bytes=10_000)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= 10_000
    assert min(sizes[:-1]) > 9_800
    assert len(arrow.from_arrow(values, max_batch_bytes=1)) == 1000


def test_sequence_numbers_continue_from_batch_to_batch_and_wrap(room: Room) -> None:
    batches = arrow.from_arrow(pa.array([b"x"] * 4), max_batch_bytes=1, producer_id=1, base_sequence=2**31 - 2)
    headers = [room.records.read_header(batch) for batch in batches]
    assert [header.base_sequence for header in headers] == [2**31 - 2, 2**31 - 1, 0, 1]


def test_text_and_times_of_arrow_are_taken(room: Room) -> None:
    times = pa.array([T0 * 1000 + 999, None], pa.timestamp("us", "UTC"))
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        (batch,) = arrow.from_arrow(pa.array(["東京", None], type_), timestamps=times)
        assert decoded(room, [batch]) == [(T0, None, "東京".encode(), ()), (-1, None, None, ())]


def test_one_time_serves_all_records(room: Room) -> None:
    (batch,) = arrow.from_arrow(None, pa.array([b"a", b"b"]), T0)
    assert decoded(room, [batch]) == [(T0, b"a", None, ()), (T0, b"b", None, ())]


def test_columns_of_different_lengths_are_refused(room: Room) -> None:
    with pytest.raises(ValueError, match="column"):
        arrow.from_arrow(pa.array([b"a"]), pa.array([b"a", b"b"]))
    with pytest.raises(ValueError, match="key column or a value column"):
        arrow.from_arrow(None)
    with pytest.raises(ValueError, match="headers of"):
        arrow.from_arrow(pa.array([b"a"]), headers=table_of([(0, None, None, ())] * 2, pa.binary())["headers"])


def test_a_header_needs_a_key_and_a_record_a_list(room: Room) -> None:
    type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with pytest.raises(ValueError, match="without a key"):
        arrow.from_arrow(pa.array([b"a"]), headers=pa.array([[{"key": None, "value": b""}]], type_))
    with pytest.raises(ValueError, match="empty list"):
        arrow.from_arrow(pa.array([b"a"]), headers=pa.array([None], type_))


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 1], [3, 2]])
def test_an_array_with_wrong_offsets_is_refused(room: Room, offsets: list[int]) -> None:
    numbers = pa.array(offsets, pa.int32()).buffers()[1]
    lying = room.column_input.BinaryInput(1, 0, None, memoryview(numbers).cast("B"), b"abc", False)
    times = room.column_input.NumberInput(1, 0, None, bytes(8), -1)
    with pytest.raises(ValueError, match="is declared at"):
        room.column_input.encode_columns(1, None, lying, times)
    with pytest.raises(ValueError, match="bytes of offsets"):
        room.column_input.BinaryInput(100, 0, None, memoryview(numbers).cast("B"), b"abc", False)


def test_pyarrow_is_imported_only_when_used(room: Room) -> None:
    assert not hasattr(importlib.import_module("cordwood.wire.columns"), "pa")
    assert "pa" not in vars(arrow)


@given(keys=st.lists(st.none() | st.binary(max_size=20)), partitions=st.integers(1, 50))
def test_a_column_of_keys_is_partitioned_like_single_keys(
    room: Room, keys: list[bytes | None], partitions: int
) -> None:
    column = arrow.binary_input(pa.array(keys, pa.binary()))
    chosen = memoryview(room.column_input.key_partitions(column, partitions, 77)).cast("i").tolist()
    assert chosen == [77 if key is None else room.hashing.partition_for_key(key, partitions) for key in keys]


@given(partitions=st.lists(st.integers(0, 4)))
def test_rows_are_sorted_by_partition_and_keep_their_order(room: Room, partitions: list[int]) -> None:
    values = [b"%d" % row for row in range(len(partitions))]
    records = arrow.record_input(pa.array(values, pa.binary()))
    order = room.column_input.RowOrder(pa.array(partitions, pa.int32()).buffers()[1], len(partitions), 5)
    for partition in range(5):
        expected = [value for value, chosen in zip(values, partitions, strict=True) if chosen == partition]
        found: list[bytes] = []
        start, end = order.starts[partition], order.starts[partition + 1]
        while start < end:
            batch, written = room.column_input.encode_some(records, start, end, order, max_batch_bytes=100)
            found += [record.value for record in room.records.decode_batch(batch)]
            start += written
        assert found == expected


@pytest.mark.parametrize("partition", [-1, 5])
def test_a_row_of_a_missing_partition_is_refused(room: Room, partition: int) -> None:
    partitions = pa.array([0, partition], pa.int32()).buffers()[1]
    with pytest.raises(ValueError, match=f"row 1 has partition {partition} where there are 0 to 4"):
        room.column_input.RowOrder(partitions, 2, 5)


def test_only_records_that_are_there_are_encoded(room: Room) -> None:
    records = arrow.record_input(pa.array([b"one", b"two"]))
    order = room.column_input.RowOrder(bytes(4), 1, 1)
    for start, end, rows in ((2, 2, None), (0, 3, None), (-1, 1, None), (0, 1, order)):
        with pytest.raises(ValueError, match="of 2"):
            room.column_input.encode_some(records, start, end, rows, max_batch_bytes=100)
    with pytest.raises(ValueError, match="4 bytes for the partitions of 2 rows"):
        room.column_input.RowOrder(bytes(4), 2, 1)
