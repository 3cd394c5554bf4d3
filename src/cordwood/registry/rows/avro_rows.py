"""Columns to rows of Avro.

A column fits a schema's type if each of its values has a place there: an int fits a long, a long does not fit an int.
Fields are found by their names. A field without a column takes its default, or null. A column without a field is
refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import fastavro

from cordwood.registry.rows.arrays import (
    contents_of,
    field_of,
    integers,
    is_bytes,
    is_integer,
    is_list,
    is_text,
    list_starts,
    microseconds,
    milliseconds,
    place_of,
)
from cordwood.registry.rows.row_encoder import (
    Branches,
    Bytes,
    CannotEncode,
    Cells,
    Constants,
    Decimals,
    Integers,
    Lists,
    Nullable,
    Raw,
    Records,
    Symbols,
)
from cordwood.registry.schemas.avro.printing import printed
from cordwood.registry.schemas.avro.types import Array, Enum, Field, Fixed, Map, Primitive, Record, Type, Union
from cordwood.runtime.files.byte_files import BytesIO
from cordwood.wire.arrow import binary_input

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def avro_cells(array: pa.Array, kind: Type, path: str) -> Cells:
    """Raises `CannotEncode` where the column does not fit; an empty array shows whether others of its type would."""
    match kind:
        case Union():
            return _union(array, kind, path)
        case Record():
            return _record(array, kind, path)
        case Array():
            return _array(array, kind, path)
        case Map():
            return _map(array, kind, path)
        case Enum():
            if is_text(array.type):
                numbers = {symbol.encode(): number for number, symbol in enumerate(kind.symbols)}
                return Symbols(path, len(array), binary_input(array), numbers, True)
        case Fixed():
            return _fixed(array, kind, path)
        case Primitive():
            return _primitive(array, kind, path)
    raise _misfit(array, kind, path)


def _union(array: pa.Array, kind: Union, path: str) -> Cells:
    import pyarrow as pa

    null = next((number for number, branch in enumerate(kind.branches) if branch.kind == "null"), -1)
    numbers = [number for number in range(len(kind.branches)) if number != null]
    if pa.types.is_null(array.type) and null >= 0:
        return Nullable(_nothing(array, path), null, 0)
    members = [f"member{at}" for at in range(len(numbers))]
    if len(numbers) > 1 and pa.types.is_struct(array.type) and _names(array.type) == members:
        cells = [
            avro_cells(field_of(array, name), kind.branches[number], f"{path}.{name}")
            for name, number in zip(members, numbers, strict=True)
        ]
        return Branches(*place_of(array, path), cells, numbers, null)
    refusals = []
    for number in numbers:
        try:
            return Nullable(avro_cells(array, kind.branches[number], path), null, number)
        except CannotEncode as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    raise _misfit(array, kind, path)


def _nothing(array: pa.Array, path: str) -> Cells:
    """For a column of type null."""
    return Cells(path, bytes((len(array) + 7) // 8), 0, len(array))


def _record(array: pa.Array, kind: Record, path: str) -> Cells:
    import pyarrow as pa

    if not pa.types.is_struct(array.type):
        raise _misfit(array, kind, path)
    columns = _names(array.type)
    fields = [_field(array, field, f"{path}.{field.name}", is_there=field.name in columns) for field in kind.fields]
    known = {field.name for field in kind.fields}
    for name in columns:
        if name not in known:
            raise CannotEncode(f"{path} has a column {name}, and the schema's record {kind.full_name} no such field")
    return Records(*place_of(array, path), fields)


def _field(array: pa.Array, field: Field, path: str, *, is_there: bool) -> Cells:
    if is_there:
        return avro_cells(field_of(array, field.name), field.type, path)
    if field.has_default:
        return Constants(path, _encoded_default(field, path))
    if isinstance(field.type, Union):
        for number, branch in enumerate(field.type.branches):
            if branch.kind == "null":
                return Constants(path, bytes([number << 1]))
    raise CannotEncode(f"there is no column {path}, and its field has no default")


def _encoded_default(field: Field, path: str) -> bytes:
    first = field.type.branches[0] if isinstance(field.type, Union) else field.type
    default = field.default
    if first.kind in ("bytes", "fixed") and isinstance(default, str):
        default = default.encode("latin-1")
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(printed(field.type, set()))), default)
    except (TypeError, ValueError) as error:
        raise CannotEncode(f"there is no column {path}, and its default cannot be written: {error}") from None
    return out.getvalue()


def _array(array: pa.Array, kind: Array, path: str) -> Cells:
    if not is_list(array.type):
        raise _misfit(array, kind, path)
    items = avro_cells(array.values, kind.items, f"{path}[]")
    return Lists(*place_of(array, path), list_starts(array), None, items)


def _map(array: pa.Array, kind: Map, path: str) -> Cells:
    import pyarrow as pa

    if not pa.types.is_map(array.type) or not is_text(array.type.key_type):
        raise _misfit(array, kind, path)
    keys = Bytes(f"{path}.key", len(array.keys), binary_input(array.keys), True)
    items = avro_cells(array.items, kind.values, f"{path}.value")
    return Lists(*place_of(array, path), list_starts(array), keys, items)


def _fixed(array: pa.Array, kind: Fixed, path: str) -> Cells:
    import pyarrow as pa

    if kind.properties.get("logicalType") == "decimal":
        return _decimal(array, kind, path, kind.size)
    if is_bytes(array.type):
        try:
            values = array.cast(pa.binary()).cast(pa.binary(kind.size))
        except pa.ArrowInvalid as error:
            raise CannotEncode(f"{path} does not have {kind.size} bytes in each row: {error}") from None
        return Raw(*place_of(values, path), contents_of(values), kind.size)
    raise _misfit(array, kind, path)


def _decimal(array: pa.Array, kind: Type, path: str, size: int) -> Cells:
    import pyarrow as pa

    precision, scale = int(kind.properties["precision"]), int(kind.properties.get("scale", 0))
    of = array.type
    if pa.types.is_decimal128(of) and of.scale == scale and of.precision <= precision:
        return Decimals(*place_of(array, path), contents_of(array), size)
    raise CannotEncode(f"{path} is of type {of}, and its schema has decimal({precision}, {scale}); cast the column")


def _primitive(array: pa.Array, kind: Primitive, path: str) -> Cells:
    import pyarrow as pa

    of = array.type
    logical = kind.properties.get("logicalType")
    match kind.name, logical:
        case "null", _ if pa.types.is_null(of):
            return Constants(path, b"")
        case "boolean", _ if pa.types.is_boolean(of):
            return Integers(*place_of(array, path), integers(array), False)
        case ("int", "date") if pa.types.is_date32(of):
            return Integers(*place_of(array, path), integers(array), True)
        case ("int", "time-millis") if pa.types.is_time32(of) and of.unit == "ms":
            return Integers(*place_of(array, path), integers(array), True)
        case ("long", "time-micros") if pa.types.is_time64(of) and of.unit == "us":
            return Integers(*place_of(array, path), integers(array), True)
        case ("long", "timestamp-millis" | "local-timestamp-millis") if _is_timestamp(of, str(logical)):
            return Integers(*place_of(array, path), milliseconds(array), True)
        case ("long", "timestamp-micros" | "local-timestamp-micros") if _is_timestamp(of, str(logical)):
            return Integers(*place_of(array, path), microseconds(array), True)
        case ("int", _) if is_integer(of, most_bits=32):
            return Integers(*place_of(array, path), integers(array), True)
        case ("long", _) if is_integer(of):
            return Integers(*place_of(array, path), integers(array), True)
        case ("float", _) if pa.types.is_float32(of):
            return Raw(*place_of(array, path), contents_of(array), 4)
        case ("double", _) if pa.types.is_float32(of) or pa.types.is_float64(of):
            values = array.cast(pa.float64())
            return Raw(*place_of(values, path), contents_of(values), 8)
        case "bytes", "decimal" if pa.types.is_decimal(of):
            return _decimal(array, kind, path, 0)
        case ("bytes", _) if is_bytes(of):
            return Bytes(path, len(array), binary_input(array), True)
        case ("string", _) if is_text(of):
            return Bytes(path, len(array), binary_input(array), True)
    raise _misfit(array, kind, path)


def _is_timestamp(kind: pa.DataType, logical: str) -> bool:
    """An instant has a time zone in Arrow, a local time has none."""
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and (kind.tz is None) == logical.startswith("local-")


def _names(kind: pa.DataType) -> list[str]:
    return [kind.field(at).name for at in range(kind.num_fields)]


def _misfit(array: pa.Array, kind: Type, path: str) -> CannotEncode:
    logical = kind.properties.get("logicalType")
    names = [branch.kind for branch in kind.branches] if isinstance(kind, Union) else [kind.kind]
    wanted = " or ".join(names) + (f" ({logical})" if logical else "")
    return CannotEncode(f"{path} is of type {array.type}, and its schema has {wanted} there; cast the column")
