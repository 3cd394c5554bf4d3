"""Avro's types as those of columns: as Spark's `from_avro` maps them, and more of the logical ones.

| Avro | Arrow | Spark |
|---|---|---|
| null, boolean, int, long, float, double, bytes, string | the same | the same |
| enum | string | string |
| fixed | binary | binary |
| array, map | list, map with keys of string | array, map |
| record | struct | struct |
| union of null and another | that one, nullable | the same |
| union of int and long; of float and double | int64; double | bigint; double |
| another union | struct of nullable `member0`, `member1` …, one for each branch that is not null | struct |
| date | date32 | date |
| time-millis, time-micros | time64(ns) | time |
| timestamp-millis, -micros, -nanos | timestamp(us, UTC) | timestamp |
| local-timestamp-millis, -micros, -nanos | timestamp(us) | timestamp_ntz |
| decimal of up to 38 digits | decimal128 | decimal |
| uuid, of string or fixed(16) | string | string |
| duration | struct of months, days, milliseconds, int64 each | struct |

`avro_column` is a pure function of a type, and `field_order` of its result is the schema's: a writer of columns as Avro
walks both in parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from cordwood.registry.schemas.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union

MAX_DECIMAL_DIGITS = 38
DURATION = pa.struct([pa.field(name, pa.int64(), nullable=False) for name in ("months", "days", "milliseconds")])
UTC_TIME, LOCAL_TIME, TIME_OF_DAY = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.time64("ns")


class Untypable(ValueError):
    """A schema has no column type; the text says why."""


class ColumnType(NamedTuple):
    type: pa.DataType
    nullable: bool = False

    def field(self, name: str) -> pa.Field:
        return pa.field(name, self.type, self.nullable)


def avro_column(kind: Type, within: tuple[str, ...] = ()) -> ColumnType:
    """Raises `Untypable`, as for a recursive type; `within` are the full names of the records around it."""
    match kind:
        case Primitive():
            return ColumnType(logical_type(kind) or _PLAIN[kind.name], kind.name == "null")
        case Enum():
            return ColumnType(pa.string())
        case Fixed():
            return ColumnType(logical_type(kind) or pa.binary())
        case Array():
            return ColumnType(pa.list_(avro_column(kind.items, within).field("element")))
        case Map():
            return ColumnType(pa.map_(pa.string(), avro_column(kind.values, within).field("value")))
        case Record():
            if kind.full_name in within:
                raise Untypable(f"the type {kind.full_name} is recursive, and Arrow and Spark have no such types")
            inner = (*within, kind.full_name)
            return ColumnType(pa.struct([avro_column(field.type, inner).field(field.name) for field in kind.fields]))
        case Union():
            return _union(kind, within)
    raise AssertionError(kind)


def _union(kind: Union, within: tuple[str, ...]) -> ColumnType:
    branches = [branch for branch in kind.branches if branch.kind != "null"]
    nullable = len(branches) < len(kind.branches)
    if not branches:
        return ColumnType(pa.null(), nullable=True)
    if len(branches) == 1:
        return ColumnType(avro_column(branches[0], within).type, nullable)
    if (collapsed := collapsed_numbers(branches)) is not None:
        return ColumnType(collapsed, nullable)
    members = [pa.field(f"member{index}", avro_column(branch, within).type) for index, branch in enumerate(branches)]
    return ColumnType(pa.struct(members), nullable)


def collapsed_numbers(branches: list[Type]) -> pa.DataType | None:
    """The column of a union whose branches are all numbers of one kind."""
    if any(branch.properties.get("logicalType") for branch in branches):
        return None
    names = {branch.kind for branch in branches}
    return pa.int64() if names == {"int", "long"} else pa.float64() if names == {"float", "double"} else None


_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}


def logical_type(kind: Type) -> pa.DataType | None:
    """Returns the column type of a valid logical type; invalid ones are ignored."""
    logical = kind.properties.get("logicalType")
    match kind.kind, logical:
        case (("bytes" | "fixed"), "decimal"):
            precision, scale = kind.properties.get("precision"), kind.properties.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int):
                return None
            return (
                pa.decimal128(precision, scale) if 0 <= scale <= precision <= MAX_DECIMAL_DIGITS and precision else None
            )
        case "int", "date":
            return pa.date32()
        case ("int", "time-millis") | ("long", "time-micros"):
            return TIME_OF_DAY
        case "long", ("timestamp-millis" | "timestamp-micros" | "timestamp-nanos"):
            return UTC_TIME
        case "long", ("local-timestamp-millis" | "local-timestamp-micros" | "local-timestamp-nanos"):
            return LOCAL_TIME
        case "fixed", "uuid" if isinstance(kind, Fixed) and kind.size == 16:
            return pa.string()
        case "fixed", "duration" if isinstance(kind, Fixed) and kind.size == 12:
            return DURATION
    return None
