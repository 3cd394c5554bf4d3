"""Creates columns for Arrow types, and arrays of their contents."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped]

from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NullColumn, NumberColumn, Parts, StructColumn


def new_column(type_: pa.DataType, nullable: bool) -> Column:
    """Raises `TypeError` for a type that no schema is mapped to."""
    if pa.types.is_null(type_):
        return NullColumn(True)
    if pa.types.is_boolean(type_):
        return BooleanColumn(nullable)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return BytesColumn(nullable)
    if pa.types.is_struct(type_):
        return StructColumn([new_column(field.type, field.nullable) for field in type_], nullable)
    if pa.types.is_map(type_):
        return ListColumn(new_column(_entries(type_), False), nullable)
    if pa.types.is_list(type_):
        return ListColumn(new_column(type_.value_type, type_.value_field.nullable), nullable)
    if (pa.types.is_primitive(type_) or pa.types.is_decimal(type_)) and type_.bit_width in (32, 64, 128):
        return NumberColumn(type_.bit_width // 8, nullable)
    raise TypeError(f"no column for {type_}")


def array_of(column: Column, type_: pa.DataType) -> pa.Array:
    """Returns all values, and empties the column."""
    return _array(column.take(), type_)


def _array(parts: Parts, type_: pa.DataType) -> pa.Array:
    length, buffers, children = parts
    return pa.Array.from_buffers(
        type_,
        length,
        [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers],
        children=[_array(child, inner) for child, inner in zip(children, _children(type_), strict=True)],
    )


def _children(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(type_):
        return [field.type for field in type_]
    if pa.types.is_map(type_):
        return [_entries(type_)]
    return [type_.value_type] if pa.types.is_list(type_) else []


def _entries(type_: pa.MapType) -> pa.StructType:
    """The struct type of a map's items."""
    return pa.struct([pa.field("key", type_.key_type, nullable=False), type_.item_field])
