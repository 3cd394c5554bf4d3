"""Columns to rows of Protobuf.

Fields are found by their names; a field without a column is left out, a column without a field is refused. A null is
left out, too. Wrappers (`google.protobuf.StringValue`) take plain columns, and `google.protobuf.Timestamp` takes
timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor import Descriptor, FieldDescriptor

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
    place_of,
)
from cordwood.registry.rows.row_encoder import (
    Bytes,
    CannotEncode,
    Cells,
    Fields,
    Integers,
    Messages,
    Moments,
    Raw,
    RepeatedFields,
    Symbols,
)
from cordwood.wire.arrow import binary_input

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_VARINT, _FIXED_64, _SIZED, _FIXED_32 = 0, 1, 2, 5
_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED_64,
    FieldDescriptor.TYPE_FIXED64: _FIXED_64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED_64,
    FieldDescriptor.TYPE_FLOAT: _FIXED_32,
    FieldDescriptor.TYPE_FIXED32: _FIXED_32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED_32,
    FieldDescriptor.TYPE_STRING: _SIZED,
    FieldDescriptor.TYPE_BYTES: _SIZED,
    FieldDescriptor.TYPE_MESSAGE: _SIZED,
}
_ZIGZAG = {FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64}
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def protobuf_cells(array: pa.Array, message: Descriptor, path: str) -> Cells:
    """Encodes whole messages. Raises `CannotEncode` if the columns do not fit; an empty array shows whether others of
    its type would."""
    return _message(array, message, path, has_size=False)


def _message(array: pa.Array, message: Descriptor, path: str, *, has_size: bool) -> Messages:
    import pyarrow as pa

    if not pa.types.is_struct(array.type):
        raise CannotEncode(f"{path} is of type {array.type}, and its schema has a message {message.full_name} there")
    fields = []
    for at in range(array.type.num_fields):
        name = array.type.field(at).name
        field = message.fields_by_name.get(name)
        if field is None:
            raise CannotEncode(f"{path} has a column {name}, and the schema's {message.full_name} no such field")
        fields.append((field.number, _field(field_of(array, name), field, f"{path}.{name}")))
    in_order = [made for _, made in sorted(fields, key=lambda numbered: numbered[0])]
    return Messages(*place_of(array, path), in_order, has_size)


def _field(array: pa.Array, field: FieldDescriptor, path: str) -> Fields:
    if not field.is_repeated:
        return Fields(_tag(field), _value(array, field, path), field.is_required)
    lists = Cells(*place_of(array, path))
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return RepeatedFields(_tag(field), lists, list_starts(array), _entries(array, message, path), False)
    if not is_list(array.type):
        raise _misfit(array, field, path)
    items = _value(array.values, field, f"{path}[]")
    tag = _tag(field, _SIZED) if field.is_packed else _tag(field)
    return RepeatedFields(tag, lists, list_starts(array), items, field.is_packed)


def _entries(array: pa.Array, entry: Descriptor, path: str) -> Cells:
    import pyarrow as pa

    if not pa.types.is_map(array.type):
        raise CannotEncode(f"{path} is of type {array.type}, and its schema has a map there")
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    fields = [
        Fields(_tag(key), _value(array.keys, key, f"{path}.key"), True),
        Fields(_tag(value), _value(array.items, value, f"{path}.value"), True),
    ]
    return Messages(f"{path}{{}}", None, 0, len(array.keys), fields, True)


def _value(array: pa.Array, field: FieldDescriptor, path: str) -> Cells:
    """The cell of one value, without its tag."""
    import pyarrow as pa

    of, kind = array.type, field.type
    place = place_of(array, path)
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE if kind == FieldDescriptor.TYPE_MESSAGE:
            return _nested(array, field, path)
        case FieldDescriptor.CPPTYPE_BOOL if pa.types.is_boolean(of):
            return Integers(*place, integers(array), False)
        case FieldDescriptor.CPPTYPE_ENUM if is_text(of):
            assert field.enum_type is not None
            numbers = {value.name.encode(): value.number for value in field.enum_type.values}
            return Symbols(path, len(array), binary_input(array), numbers, False)
        case FieldDescriptor.CPPTYPE_ENUM if is_integer(of, most_bits=32):
            return Integers(*place, integers(array), False)
        case FieldDescriptor.CPPTYPE_INT32 if is_integer(of, most_bits=32):
            return _number(array, field, path, pa.int32())
        case FieldDescriptor.CPPTYPE_UINT32 if is_integer(of):
            return _number(_not_negative(array, path, most=2**32 - 1), field, path, pa.uint32())
        case FieldDescriptor.CPPTYPE_INT64 if is_integer(of):
            return _number(array, field, path, pa.int64())
        case FieldDescriptor.CPPTYPE_UINT64 if is_integer(of):
            return _number(_not_negative(array, path, most=2**63 - 1), field, path, pa.uint64())
        case FieldDescriptor.CPPTYPE_FLOAT if pa.types.is_float32(of):
            return Raw(*place, contents_of(array), 4)
        case FieldDescriptor.CPPTYPE_DOUBLE if pa.types.is_float32(of) or pa.types.is_float64(of):
            values = array.cast(pa.float64())
            return Raw(*place_of(values, path), contents_of(values), 8)
        case FieldDescriptor.CPPTYPE_STRING if kind == FieldDescriptor.TYPE_STRING and is_text(of):
            return Bytes(path, len(array), binary_input(array), False)
        case FieldDescriptor.CPPTYPE_STRING if kind == FieldDescriptor.TYPE_BYTES and is_bytes(of):
            return Bytes(path, len(array), binary_input(array), False)
    raise _misfit(array, field, path)


def _nested(array: pa.Array, field: FieldDescriptor, path: str) -> Cells:
    import pyarrow as pa

    message = field.message_type
    assert message is not None
    if message.full_name == "google.protobuf.Timestamp" and pa.types.is_timestamp(array.type):
        return Moments(*place_of(array, path), microseconds(array))
    if message.full_name in _WRAPPERS and not pa.types.is_struct(array.type):
        inner = message.fields_by_name["value"]
        fields = [Fields(_tag(inner), _value(array, inner, path), False)]
        return Messages(*place_of(array, path), fields, True)
    return _message(array, message, path, has_size=True)


def _number(array: pa.Array, field: FieldDescriptor, path: str, fixed_type: pa.DataType) -> Cells:
    wire_type = _WIRE_TYPES.get(field.type, _VARINT)
    if wire_type == _VARINT:
        return Integers(*place_of(array, path), integers(array), field.type in _ZIGZAG)
    values = array.cast(fixed_type)
    return Raw(*place_of(values, path), contents_of(values), 4 if wire_type == _FIXED_32 else 8)


def _not_negative(array: pa.Array, path: str, *, most: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    wide = array.cast(pa.int64())
    bounds = pc.min_max(wide)
    if bounds["min"].is_valid and (bounds["min"].as_py() < 0 or bounds["max"].as_py() > most):
        raise CannotEncode(f"{path} has numbers out of the range of its schema's type, which is unsigned")
    return wide


def _tag(field: FieldDescriptor, wire_type: int | None = None) -> bytes:
    number = field.number << 3 | (_WIRE_TYPES.get(field.type, _VARINT) if wire_type is None else wire_type)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_TYPE_NAMES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}


def _misfit(array: pa.Array, field: FieldDescriptor, path: str) -> CannotEncode:
    wanted = f"{'repeated ' if field.is_repeated else ''}{_TYPE_NAMES.get(field.type, 'another type')}"
    return CannotEncode(f"{path} is of type {array.type}, and its schema has {wanted} there; cast the column")
