"""Protobuf's types as those of columns.

| Protobuf | Arrow | Spark |
|---|---|---|
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int32; int64 | int; bigint |
| uint32, fixed32; uint64, fixed64 | int64; decimal128(20, 0) | bigint; decimal(20, 0) |
| float, double, bool, string, bytes | the same | the same |
| enum | string: the name, or the number of one that has none | string |
| message | struct | struct |
| repeated; map | list; map | array; map; empty where there is none |
| member of a oneof, `optional`, message | nullable | nullable |
| google.protobuf wrappers (StringValue …) | what they wrap, nullable | the same |
| google.protobuf.Timestamp; Duration | timestamp(us, UTC); duration(us) | timestamp; interval day to second |
| google.protobuf.Struct, Value, ListValue, and recursive messages | string: as Protobuf's JSON | string |

A field without presence has its default where it is missing, as in Protobuf.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from .avro_types import UTC_TIME, ColumnType, Untypable

WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_JSON_LIKE = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))

_F = FieldDescriptor
_SCALARS: dict[int, Any] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), pa.int32()),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), pa.int64()),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), pa.int64()),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), pa.decimal128(20, 0)),
    _F.TYPE_FLOAT: pa.float32(),
    _F.TYPE_DOUBLE: pa.float64(),
    _F.TYPE_BOOL: pa.bool_(),
    _F.TYPE_STRING: pa.string(),
    _F.TYPE_BYTES: pa.binary(),
    _F.TYPE_ENUM: pa.string(),
}


def protobuf_column(message: Descriptor, within: tuple[str, ...] = ()) -> ColumnType:
    """Raises `Untypable`. `within` are the full names of the messages around it."""
    if is_json(message, within):
        return ColumnType(pa.string())
    if message.full_name == TIMESTAMP:
        return ColumnType(UTC_TIME)
    if message.full_name == DURATION:
        return ColumnType(pa.duration("us"))
    if message.full_name in WRAPPERS:
        return ColumnType(_SCALARS[message.fields_by_number[1].type])
    inner = (*within, message.full_name)
    return ColumnType(pa.struct([field_column(field, inner).field(field.name) for field in in_order(message)]))


def in_order(message: Descriptor) -> list[FieldDescriptor]:
    """Sorts by number, so that members of a oneof are where they were declared."""
    return sorted(message.fields, key=lambda field: field.number)


def is_json(message: Descriptor, within: tuple[str, ...]) -> bool:
    """For a message without a column type."""
    return message.full_name in within or message.full_name in _JSON_LIKE


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def field_column(field: FieldDescriptor, within: tuple[str, ...]) -> ColumnType:
    if field.message_type is not None and is_map(field):
        key, value = field.message_type.fields_by_number[1], field.message_type.fields_by_number[2]
        key_type = _single(key, within).type
        return ColumnType(pa.map_(key_type, pa.field("value", _single(value, within).type, nullable=False)))
    single = _single(field, within)
    if field.is_repeated:
        return ColumnType(pa.list_(pa.field("element", single.type, nullable=False)))
    return single._replace(nullable=field.has_presence and not field.is_required)


def _single(field: FieldDescriptor, within: tuple[str, ...]) -> ColumnType:
    if field.type == _F.TYPE_GROUP:
        raise Untypable(f"field {field.full_name} is a group, which is not supported")
    if field.message_type is not None:
        return protobuf_column(field.message_type, within)
    return ColumnType(_SCALARS[field.type])
