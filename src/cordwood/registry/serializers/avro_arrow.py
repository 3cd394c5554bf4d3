"""Avro values in bulk to Arrow: pure functions of schemas and buffers, for whoever has many records at once.

>>> reader = AvroSchema.parse(text, (), {}, validate=False)
>>> avro_to_arrow({7: schema_7, 9: schema_9}, reader, [b"\\0\\0\\0\\0\\7...", None])

Each value names its writer's schema by the id in front and is resolved to the reader's schema. Types map as Spark's
from_avro maps them: a union of null and another type is nullable, one of int and long is a long, one of float and
double a double, and any other a struct with a nullable field `memberN` for each branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro

from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.avro.types import Array, Enum, Fixed, Map, Primitive, Record, Type, Union
from cordwood.runtime.files.byte_files import BytesIO

from .codecs import compiled_avro
from .framing import BadFrame, split_prefix

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


class BadRecord(NamedTuple):
    """A value that could not be decoded."""

    row: int
    reason: str


class Decoded(NamedTuple):
    values: pa.Array
    """As long as the input; null where the input was, and where it could not be decoded."""
    bad: Sequence[BadRecord]


def avro_to_arrow(
    writers: Mapping[int, AvroSchema], reader: AvroSchema, values: Iterable[bytes | memoryview | None]
) -> Decoded:
    """Decodes values with an id in front. Raises `ValueError` for a reader's schema that Arrow has no type for, as a
    recursive one."""
    import pyarrow as pa

    column = _column_of(reader.root, ())
    wanted = compiled_avro(reader)
    rows: list[Any] = []
    bad: list[BadRecord] = []
    for index, value in enumerate(values):
        row = None
        if value is not None:
            try:
                id_, payload = split_prefix(bytes(value))
                writer = writers.get(id_)
                if writer is None:
                    raise BadFrame(f"schema {id_} is not known")
                found = fastavro.schemaless_reader(BytesIO(payload), compiled_avro(writer), wanted)
                row = found if column.convert is None else column.convert(found)
            except Exception as error:  # noqa: BLE001  # whatever bytes that are no Avro make the decoder raise
                bad.append(BadRecord(index, f"{type(error).__name__}: {error}"))
                row = None
        rows.append(row)
    return Decoded(pa.array(rows, column.type), bad)


def arrow_type(schema: AvroSchema) -> pa.DataType:
    """Raises `ValueError`."""
    return _column_of(schema.root, ()).type


class _Column(NamedTuple):
    type: pa.DataType
    convert: Callable[[Any], Any] | None
    """From a value as fastavro has it; None if it stays as it is."""
    is_nullable: bool = False


def _column_of(kind: Type, within: tuple[str, ...]) -> _Column:
    import pyarrow as pa

    match kind:
        case Primitive():
            return _Column(_primitive(kind), None, kind.name == "null")
        case Enum():
            return _Column(pa.string(), None)
        case Fixed():
            return _Column(_logical(kind, pa.binary(kind.size)), None)
        case Array():
            items = _column_of(kind.items, within)
            return _Column(pa.list_(pa.field("item", items.type, items.is_nullable)), _each(items.convert))
        case Map():
            values = _column_of(kind.values, within)
            made = pa.map_(pa.string(), pa.field("value", values.type, values.is_nullable))
            return _Column(made, _pairs(values.convert))
        case Record():
            return _record(kind, within)
        case Union():
            return _union(kind, within)
    raise AssertionError(kind)


def _record(kind: Record, within: tuple[str, ...]) -> _Column:
    import pyarrow as pa

    if kind.full_name in within:
        raise ValueError(f"the type {kind.full_name} is recursive, and Arrow has no such types")
    columns = {field.name: _column_of(field.type, (*within, kind.full_name)) for field in kind.fields}
    made = pa.struct([pa.field(name, column.type, column.is_nullable) for name, column in columns.items()])
    converts = {name: column.convert for name, column in columns.items() if column.convert is not None}
    if not converts:
        return _Column(made, None)

    def convert(value: Any) -> Any:
        return value | {name: each(value[name]) for name, each in converts.items()}

    return _Column(made, convert)


def _union(kind: Union, within: tuple[str, ...]) -> _Column:
    import pyarrow as pa

    branches = [branch for branch in kind.branches if branch.kind != "null"]
    is_nullable = len(branches) < len(kind.branches)
    names = {branch.kind for branch in branches}
    if not branches:
        return _Column(pa.null(), None, is_nullable=True)
    if len(branches) == 1:
        only = _column_of(branches[0], within)
        return _Column(only.type, _unless_null(only.convert), is_nullable)
    if names in ({"int", "long"}, {"float", "double"}) and not any(branch.properties for branch in branches):
        return _Column(pa.int64() if "long" in names else pa.float64(), None, is_nullable)
    columns = [_column_of(branch, within) for branch in branches]
    made = pa.struct([pa.field(f"member{number}", column.type, nullable=True) for number, column in enumerate(columns)])

    def convert(value: Any) -> Any:
        if value is None:
            return None
        for number, branch in enumerate(branches):
            if _is_of(branch, value):
                change = columns[number].convert
                return {f"member{number}": value if change is None else change(value)}
        raise ValueError(f"{value!r} is of no branch of its union")

    return _Column(made, convert, is_nullable)


_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}


def _is_of(branch: Type, value: Any) -> bool:
    if branch.kind in ("int", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    if branch.kind in ("float", "double"):
        return isinstance(value, float)
    if isinstance(branch, Enum):
        return value in branch.symbols
    if isinstance(branch, Record):
        return isinstance(value, dict) and value.keys() == {field.name for field in branch.fields}
    return isinstance(value, _PYTHON_TYPES[branch.kind])


def _each(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _pairs(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda values: list(values.items())
    return lambda values: [(key, convert(value)) for key, value in values.items()]


def _unless_null(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _primitive(kind: Primitive) -> pa.DataType:
    import pyarrow as pa

    plain = {
        "null": pa.null(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.binary(),
        "string": pa.string(),
    }
    return _logical(kind, plain[kind.name])


# By the underlying type, as fastavro reads them.
_LOGICAL = {
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    *(("long", f"{local}timestamp-{unit}") for local in ("", "local-") for unit in ("millis", "micros")),
}


def _logical(kind: Type, plain: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    logical = kind.properties.get("logicalType")
    if logical == "decimal" and kind.kind in ("bytes", "fixed"):
        return pa.decimal128(int(kind.properties["precision"]), int(kind.properties.get("scale", 0)))
    if (kind.kind, logical) not in _LOGICAL:
        return plain
    match str(logical):
        case "date":
            return pa.date32()
        case "time-millis":
            return pa.time32("ms")
        case "time-micros":
            return pa.time64("us")
        case name:
            unit = "ms" if name.endswith("millis") else "us"
            return pa.timestamp(unit) if name.startswith("local-") else pa.timestamp(unit, "UTC")
