"""Avro values in bulk to Arrow columns."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from cordwood.registry import arrow_type, avro_to_arrow
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.serializers.codecs import encode_avro


def schema(fields: list[Any]) -> AvroSchema:
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return AvroSchema.parse(text, (), {}, validate=False)


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def framed(id_: int, writer: AvroSchema, value: Any) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + encode_avro(writer, value)


def test_every_type_becomes_a_column() -> None:
    inner = {"type": "record", "name": "I", "fields": [field("n", "int")]}
    writer = schema(
        [
            *(field(name, name) for name in ("boolean", "int", "long", "float", "double", "bytes", "string")),
            field("enum", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
            field("fixed", {"type": "fixed", "name": "F", "size": 2}),
            field("array", {"type": "array", "items": ["null", "int"]}),
            field("map", {"type": "map", "values": inner}),
            field("optional", ["null", "I"]),
            field("number", ["int", "long", "null"]),
            field("union", ["null", "string", "I"]),
            field("day", {"type": "int", "logicalType": "date"}),
            field("at", {"type": "long", "logicalType": "timestamp-millis"}),
            field("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
        ]
    )
    value = {
        "boolean": True,
        "int": 1,
        "long": 2**40,
        "float": 0.5,
        "double": 0.25,
        "bytes": b"b",
        "string": "s",
        "enum": "B",
        "fixed": b"xy",
        "array": [1, None],
        "map": {"k": {"n": 5}},
        "optional": None,
        "number": 7,
        "union": {"n": 3},
        "day": datetime.date(2024, 2, 29),
        "at": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC),
        "price": Decimal("12.34"),
    }
    found = avro_to_arrow({1: writer}, writer, [framed(1, writer, value), None])
    assert found.bad == []
    assert found.values.type == arrow_type(writer)
    row, nothing = found.values.to_pylist()
    assert nothing is None
    assert row == value | {"map": [("k", {"n": 5})], "union": {"member0": None, "member1": {"n": 3}}}


def test_older_and_newer_writers_are_resolved_to_the_reader() -> None:
    old, new = schema([field("x", "int")]), schema([field("x", "int"), field("y", "string"), field("z", "int")])
    reader = schema([field("x", "long"), field("y", "string", default="none")])
    values = [framed(1, old, {"x": 1}), framed(2, new, {"x": 2, "y": "two", "z": 0})]
    found = avro_to_arrow({1: old, 2: new}, reader, values)
    assert found.values.to_pylist() == [{"x": 1, "y": "none"}, {"x": 2, "y": "two"}]
    assert found.values.type == pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.string(), False)])


def test_bad_records_are_null_and_reported() -> None:
    writer = schema([field("x", "string")])
    values = [b"", framed(9, writer, {"x": "a"}), framed(1, writer, {"x": "a"})[:-1], framed(1, writer, {"x": "b"})]
    found = avro_to_arrow({1: writer}, writer, values)
    assert found.values.to_pylist() == [None, None, None, {"x": "b"}]
    assert [bad.row for bad in found.bad] == [0, 1, 2]
    assert "schema 9" in found.bad[1].reason


def test_recursive_types_are_refused() -> None:
    writer = schema([field("next", ["null", "R"])])
    with pytest.raises(ValueError, match="recursive"):
        arrow_type(writer)


def test_schema_without_a_record_becomes_a_plain_column() -> None:
    reader = AvroSchema.parse('"int"', (), {}, validate=False)
    values = [framed(1, reader, number) for number in (0, -1, 2**31 - 1)]
    assert avro_to_arrow({1: reader}, reader, values).values.to_pylist() == [0, -1, 2**31 - 1]
