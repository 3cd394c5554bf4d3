from datetime import date
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.spark.source.json_values import JsonParser

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def parse(*values: bytes | None, schema: Any = SCHEMA) -> tuple[list[dict[str, Any]], list[bool]]:
    table, malformed = JsonParser(schema).parse(pa.array(values, pa.binary()))
    assert table.schema.equals(schema)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows, malformed.to_pylist()


NOTHING = {"id": None, "name": None}


def test_objects_become_rows() -> None:
    rows, malformed = parse(b'{"id":1,"name":"a"}', b'{"name":"b","id":2}')
    assert rows == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert malformed == [False, False]


def test_missing_fields_are_null_and_others_are_skipped() -> None:
    rows, malformed = parse(b'{"id":1,"more":[1,{"x":2}]}', b"{}")
    assert rows == [{"id": 1, "name": None}, NOTHING]
    assert malformed == [False, False]


def test_a_tombstone_is_nulls_and_not_malformed() -> None:
    assert parse(None, b'{"id":1}') == ([NOTHING, {"id": 1, "name": None}], [False, False])


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"  ",
        b"nonsense",
        b"[1,2]",
        b"7",
        b'{"id":1',
        b'{"id":1}}',
        b'{"id":1}{"id":2}',
        b'{"id":"text"}',
        b'{"id":1.5}',
        b'{"name":"\xff"}',
        b'\n{"id":\n',
    ],
)
def test_one_malformed_value_costs_only_its_own_row(bad: bytes) -> None:
    good = [b'{"id":%d,"name":"n"}' % number for number in range(5)]
    rows, malformed = parse(*good[:2], bad, *good[2:])
    assert malformed == [False, False, True, False, False, False]
    assert rows[2] == NOTHING
    assert [row["id"] for row in rows] == [0, 1, None, 2, 3, 4]


def test_blank_and_double_values_do_not_shift_rows() -> None:
    rows, malformed = parse(b" ", b'{"id":1}{"id":2}', b'{"id":3}')
    assert malformed == [True, True, False]
    assert rows[2]["id"] == 3


def test_an_object_may_be_written_on_several_lines() -> None:
    rows, malformed = parse(b'{\n  "id": 1,\r\n  "name": "a"\n}\n', b' {"id":2}')
    assert [row["id"] for row in rows] == [1, 2]
    assert malformed == [False, False]


def test_escapes_within_strings_are_read() -> None:
    rows, _ = parse(rb'{"id":1,"name":"a\nb\u00e9\"}{"}')
    assert rows[0]["name"] == 'a\nbé"}{'


def test_nested_values_and_times_are_read() -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("lines", pa.list_(pa.struct([("sku", pa.string()), ("price", pa.float64())]))),
        ]
    )
    rows, malformed = parse(
        b'{"at":"2026-11-16T12:00:00.25Z","lines":[{"sku":"x","price":2}]}', b'{"lines":[]}', schema=schema
    )
    assert malformed == [False, False]
    assert rows[0]["at"].isoformat() == "2026-11-16T12:00:00.250000+00:00"
    assert rows[0]["lines"] == [{"sku": "x", "price": 2.0}]
    assert rows[1] == {"at": None, "lines": []}


def test_dates_are_read_also_within_others() -> None:
    schema = pa.schema([("day", pa.date32()), ("days", pa.list_(pa.struct([("day", pa.date32())])))])
    rows, malformed = parse(
        b'{"day":"2026-11-16","days":[{"day":"2026-01-02"}]}', b'{"day":"2026-11-16T07:00:00"}', b"{}", schema=schema
    )
    assert rows[0] == {"day": date(2026, 11, 16), "days": [{"day": date(2026, 1, 2)}]}
    assert rows[1]["day"] == date(2026, 11, 16)
    assert malformed == [False, False, False]


def test_a_time_without_a_zone_is_in_utc() -> None:
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    rows, malformed = parse(b'{"at":"2026-11-16 12:00:00"}', b'{"at":"2026-11-16T12:00:00+02:00"}', schema=schema)
    assert [row["at"].hour for row in rows] == [12, 10]
    assert malformed == [False, False]


def test_values_can_be_printed_without_any_field() -> None:
    _, malformed = JsonParser(pa.schema([])).parse(pa.array([b"{}", b"nonsense", b'{"a":1}']))
    assert malformed.to_pylist() == [False, True, False]


def test_no_values_give_no_rows() -> None:
    assert parse() == ([], [])


@given(st.lists(st.none() | st.binary(max_size=30) | st.integers(0, 9).map(lambda number: b'{"id":%d}' % number)))
def test_each_value_has_its_own_row_whatever_the_others_are(values: list[bytes | None]) -> None:
    rows, malformed = parse(*values)
    alone = [parse(value) for value in values]
    assert rows == [row for (row,), _ in alone]
    assert malformed == [bad for _, (bad,) in alone]
