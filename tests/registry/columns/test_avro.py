"""Avro to columns: what fastavro encodes and resolves is what comes out, whatever the schema."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.registry.columns.avro_types import Untypable
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.runtime.files.byte_files import BytesIO
from tests.registry.columns_room import COMPILED, INTERPRETED, ColumnsRoom, framed, in_each_room

UTC = datetime.UTC


def parsed(schema: Any) -> AvroSchema:
    return AvroSchema.parse(json.dumps(schema), (), {}, validate=True)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def encoded(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


# ---- any schema: a strategy of what is encoded, and of what comes out

Values = st.SearchStrategy[tuple[Any, Any]]


def same(values: st.SearchStrategy[Any]) -> Values:
    return values.map(lambda value: (value, value))


SINGLE: list[tuple[Any, Values]] = [
    ("boolean", same(st.booleans())),
    ("int", same(st.integers(-(2**31), 2**31 - 1))),
    ("long", same(st.integers(-(2**63), 2**63 - 1))),
    ("float", same(st.floats(width=32, allow_nan=False))),
    ("double", same(st.floats(allow_nan=False))),
    ("bytes", same(st.binary(max_size=20))),
    ("string", same(st.text(max_size=20))),
    ({"type": "int", "logicalType": "date"}, same(st.dates())),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        same(st.datetimes(timezones=st.just(UTC))),
    ),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, same(st.datetimes())),
    ({"type": "long", "logicalType": "time-micros"}, same(st.times())),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
        same(st.decimals(-(10**34), 10**34, places=3)),
    ),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(lambda value: (value, str(value)))),
]


@st.composite
def types(draw: st.DrawFn, names: Callable[[], str], depth: int = 0) -> tuple[Any, Values]:
    kinds = ["single", "enum", "fixed", "null"] + ["array", "map", "record", "optional", "union"] * (depth < 3)
    kind = draw(st.sampled_from(kinds))
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": names(), "symbols": symbols}, same(st.sampled_from(symbols))
    if kind == "fixed":
        return {"type": "fixed", "name": names(), "size": 3}, same(st.binary(min_size=3, max_size=3))
    if kind == "null":
        return "null", same(st.none())
    if kind == "array":
        schema, values = draw(types(names, depth + 1))
        return {"type": "array", "items": schema}, st.lists(values, max_size=4).map(_unzipped)
    if kind == "map":
        schema, values = draw(types(names, depth + 1))
        entries = st.dictionaries(st.text(max_size=5), values, max_size=3)
        return {"type": "map", "values": schema}, entries.map(_mapped)
    if kind == "record":
        made: tuple[Any, Values] = draw(records(names, depth + 1))
        return made
    if kind == "optional":
        schema, values = draw(types(names, depth + 1).filter(lambda found: not _is_union_or_null(found[0])))
        branches = draw(st.sampled_from([["null", schema], [schema, "null"]]))
        return branches, st.one_of(same(st.none()), values)
    if kind == "union":
        # Uses types that fastavro distinguishes by their values.
        branches = ["null", "boolean", "string", "bytes"]
        members = st.one_of(
            same(st.none()),
            st.booleans().map(lambda value: (value, {"member0": value, "member1": None, "member2": None})),
            st.text(max_size=5).map(lambda value: (value, {"member0": None, "member1": value, "member2": None})),
            st.binary(max_size=5).map(lambda value: (value, {"member0": None, "member1": None, "member2": value})),
        )
        return branches, members
    single: tuple[Any, Values] = draw(st.sampled_from(SINGLE))
    return single


@st.composite
def records(draw: st.DrawFn, names: Callable[[], str], depth: int = 0) -> tuple[Any, Values]:
    fields = [draw(types(names, depth)) for _ in range(draw(st.integers(0, 4)))]
    schema = record(*(field(f"f{index}", each) for index, (each, _) in enumerate(fields)), name=names())
    values = st.tuples(*(each for _, each in fields)).map(
        lambda found: (
            {f"f{index}": datum for index, (datum, _) in enumerate(found)},
            {f"f{index}": expected for index, (_, expected) in enumerate(found)},
        )
    )
    return schema, values


def _is_union_or_null(schema: Any) -> bool:
    return isinstance(schema, list) or schema == "null"


def _unzipped(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    return [datum for datum, _ in pairs], [expected for _, expected in pairs]


def _mapped(pairs: dict[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    return {key: datum for key, (datum, _) in pairs.items()}, [(key, each) for key, (_, each) in pairs.items()]


def new_names() -> Callable[[], str]:
    count = iter(range(1_000_000))
    return lambda: f"N{next(count)}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[bytes], list[Any]]:
    schema, values = draw(records(new_names()))
    rows = draw(st.lists(values, max_size=5))
    return schema, [encoded(schema, datum) for datum, _ in rows], [expected for _, expected in rows]


@in_each_room
@settings(max_examples=150, deadline=None)
@given(cases())
def test_data_of_fastavro_is_read(room: ColumnsRoom, case: tuple[Any, list[bytes], list[Any]]) -> None:
    schema, payloads, expected = case
    rows, bad = room.decode(parsed(schema), [framed(payload) for payload in payloads])
    assert bad == []
    assert rows == expected


@settings(max_examples=150, deadline=None)
@given(cases(), st.data())
def test_damaged_values_cost_only_their_own_rows_in_each_room(
    case: tuple[Any, list[bytes], list[Any]], data: st.DataObject
) -> None:
    schema, payloads, expected = case
    values: list[bytes | None] = []
    for payload in payloads:
        damaged = bytearray(framed(payload))
        for _ in range(data.draw(st.integers(0, 2))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        del damaged[data.draw(st.integers(0, len(damaged))) :]
        values += [bytes(damaged), framed(payload), None]
    rows, bad = COMPILED.decode(parsed(schema), values)
    assert rows[1::3] == expected
    assert rows[2::3] == [None] * len(expected)
    assert {row % 3 for row, _ in bad} <= {0}
    assert repr(INTERPRETED.decode(parsed(schema), values)) == repr((rows, bad))


# ---- resolution

_WIDER = {"int": ["int", "long", "float", "double"], "long": ["long", "double"], "float": ["float", "double"]}


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """A writer's schema, a reader's that can read it, and values of the writer."""
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, max_size=6))
    written = [(name, draw(st.sampled_from(["int", "long", "float", "string", "bytes", "boolean"]))) for name in names]
    kept = [
        field(name, draw(st.sampled_from(_WIDER.get(kind, [kind]))), default=None)
        for name, kind in written
        if draw(st.booleans())
    ]
    for each in kept:
        del each["default"]
        if draw(st.booleans()):
            each["type"] = ["null", each["type"]]
    added = [field("new", "long", default=7), field("list", {"type": "array", "items": "int"}, default=[1, 2])]
    fields = draw(st.permutations(kept + added))
    ranges = {
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**53), 2**53),
        "float": st.floats(width=32, allow_nan=False),
        "string": st.text(max_size=5),
        "bytes": st.binary(max_size=5),
        "boolean": st.booleans(),
    }
    values = draw(st.lists(st.fixed_dictionaries({name: ranges[kind] for name, kind in written}), max_size=4))
    return record(*(field(name, kind) for name, kind in written)), record(*fields), values


@in_each_room
@settings(max_examples=150, deadline=None)
@given(evolutions())
def test_writers_are_resolved_as_fastavro_resolves_them(
    room: ColumnsRoom, evolution: tuple[Any, Any, list[Any]]
) -> None:
    writer, reader, values = evolution
    payloads = [encoded(writer, value) for value in values]
    expected = [
        fastavro.schemaless_reader(BytesIO(each), fastavro.parse_schema(writer), fastavro.parse_schema(reader))
        for each in payloads
    ]
    for row in expected:
        assert isinstance(row, dict)
        for each in reader["fields"]:
            if "float" in (each["type"], *(each["type"] if isinstance(each["type"], list) else [])):
                # fastavro keeps whole numbers, and more digits, where a float was asked for.
                row[each["name"]] = as_float32(row[each["name"]])
    rows, bad = room.decode(parsed(reader), [framed(each) for each in payloads], {1: parsed(writer)})
    assert bad == []
    assert rows == expected


def as_float32(value: Any) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


@in_each_room
def test_each_record_is_resolved_from_its_own_writer(room: ColumnsRoom) -> None:
    first = record(field("x", "int"), field("old", "string"))
    second = record(field("y", "string"), field("x", "long"))
    reader = record(field("x", "long"), field("y", "string", default="none"))
    values = [
        framed(encoded(first, {"x": 1, "old": "o"}), 1),
        framed(encoded(second, {"x": 2, "y": "two"}), 2),
        framed(b"", 3),
        framed(encoded(first, {"x": 3, "old": "o"}), 1),
    ]
    rows, bad = room.decode(parsed(reader), values, {1: parsed(first), 2: parsed(second)})
    assert rows == [{"x": 1, "y": "none"}, {"x": 2, "y": "two"}, None, {"x": 3, "y": "none"}]
    assert bad == [(2, "schema 3 is not known")]


@in_each_room
def test_a_writer_without_a_field_that_has_no_default_is_bad_and_says_which(room: ColumnsRoom) -> None:
    writer, reader = record(field("x", "int")), record(field("x", "int"), field("y", "int"))
    rows, bad = room.decode(parsed(reader), [framed(b"\x02")], {1: parsed(writer)})
    assert rows == [None]
    assert bad == [(0, "at y: the writer's schema has no such field, and the reader's has no default for it")]


@in_each_room
def test_aliases_of_the_reader_name_fields_of_the_writer(room: ColumnsRoom) -> None:
    writer, reader = record(field("old", "int")), record(field("new", "int", aliases=["old"]))
    assert room.decode(parsed(reader), [framed(b"\x02")], {1: parsed(writer)}) == ([{"new": 1}], [])


@in_each_room
def test_symbols_that_the_reader_lacks_are_its_default_or_bad(room: ColumnsRoom) -> None:
    writer = record(field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    strict = record(field("e", {"type": "enum", "name": "E", "symbols": ["B"]}))
    lenient = record(field("e", {"type": "enum", "name": "E", "symbols": ["B", "Z"], "default": "Z"}))
    values = [framed(b"\0"), framed(b"\2")]
    rows, bad = room.decode(parsed(strict), values, {1: parsed(writer)})
    assert rows == [None, {"e": "B"}]
    assert bad == [(0, "at e: symbol 0 of the writer's enum is not one of the reader's")]
    assert room.decode(parsed(lenient), values, {1: parsed(writer)}) == ([{"e": "Z"}, {"e": "B"}], [])


@in_each_room
def test_unions_are_resolved_branch_by_branch(room: ColumnsRoom) -> None:
    writer = record(field("u", ["int", "string", "null"]))
    reader = record(field("u", ["null", "long", "string"]))
    values = [framed(encoded(writer, {"u": each})) for each in (5, "x", None)]
    rows, bad = room.decode(parsed(reader), values, {1: parsed(writer)})
    assert bad == []
    assert [row["u"] for row in rows] == [{"member0": 5, "member1": None}, {"member0": None, "member1": "x"}, None]
    plain = record(field("u", "long"))
    rows, bad = room.decode(parsed(plain), values, {1: parsed(writer)})
    assert rows == [{"u": 5}, None, None]
    assert [row for row, _ in bad] == [1, 2]


@in_each_room
def test_recursive_types_are_skipped_but_not_typed(room: ColumnsRoom) -> None:
    node = record(field("value", "int"), field("next", ["null", "Node"]), name="Node")
    writer = record(field("list", node), field("x", "int"))
    value = {"list": {"value": 1, "next": {"value": 2, "next": None}}, "x": 9}
    reader = record(field("x", "int"))
    assert room.decode(parsed(reader), [framed(encoded(writer, value))], {1: parsed(writer)}) == ([{"x": 9}], [])
    deep = encoded(writer, value)[:1] + b"\x02\x02" * 100_000
    rows, bad = room.decode(parsed(reader), [framed(deep)], {1: parsed(writer)})
    assert rows == [None]
    assert "nested more than" in bad[0][1]
    with pytest.raises((Untypable, ValueError), match="recursive"):
        room.plan_for(parsed(writer))


@in_each_room
def test_items_of_no_bytes_cannot_be_declared_without_end(room: ColumnsRoom) -> None:
    schema = record(field("nothing", {"type": "array", "items": "null"}))
    rows, bad = room.decode(parsed(schema), [framed(b"\x06\0"), framed(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0")])
    assert rows == [{"nothing": [None, None, None]}, None]
    assert "items are declared" in bad[0][1]


@in_each_room
def test_logical_types_at_their_limits(room: ColumnsRoom) -> None:
    millis = record(field("at", {"type": "long", "logicalType": "timestamp-millis"}))
    clock = record(field("at", {"type": "int", "logicalType": "time-millis"}))
    small = record(field("n", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 3}))
    assert room.decode(parsed(millis), [framed(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")])[1] == [
        (0, f"at at: {2**63 - 1} is out of range")
    ]
    assert room.decode(parsed(clock), [framed(b"\x01")])[1] == [(0, "at at: -1 is out of range")]
    values = [framed(number.to_bytes(4, "big", signed=True)) for number in (999, -999, 1000, -1000)]
    rows, bad = room.decode(parsed(small), values)
    assert rows == [{"n": Decimal(999)}, {"n": Decimal(-999)}, None, None]
    assert [reason for _, reason in bad] == ["at n: a decimal has more than 3 digits"] * 2


@in_each_room
def test_a_schema_that_is_not_a_record_is_a_plain_column(room: ColumnsRoom) -> None:
    assert room.decode(parsed("int"), [framed(b"\x02"), None, framed(b"")]) == (
        [1, None, None],
        [(2, "it ends within a number")],
    )


@in_each_room
def test_a_decoder_continues_after_each_array(room: ColumnsRoom) -> None:
    schema = parsed(record(field("names", {"type": "array", "items": "string"})))
    decoder = room.decoder.ColumnDecoder(room.plan_for(schema), lambda _: schema, None)
    for count in (3, 0, 1_000, 2):
        value = framed(encoded(record(field("names", {"type": "array", "items": "string"})), {"names": ["a", "bc"]}))
        decoded = decoder.decode(pa.array([value] * count, pa.binary()))
        decoded.values.validate(full=True)
        assert decoded.values.to_pylist() == [{"names": ["a", "bc"]}] * count
