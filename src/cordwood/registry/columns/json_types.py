"""JSON Schema's types as those of columns.

| JSON Schema | Arrow | Spark |
|---|---|---|
| string, boolean, integer, number | string, bool, int64, double | string, boolean, bigint, double |
| `enum`, `const` of strings, booleans or whole numbers | as those | as those |
| object with `properties` | struct | struct |
| object with nothing but a schema of `additionalProperties` | map with keys of string | map |
| array with one schema of `items` | list | array |
| `anyOf`, `oneOf` or a list of types, of one and null | that one | that one |
| `anyOf`, `oneOf` of numbers | double | double |
| `allOf` of objects, or of a type and what restricts it | struct with the fields of all, or that type | as those |
| everything else: tuples, other unions, recursive schemas, anything goes | string: the JSON text | string |

Every field may be null: required properties matter only for validation.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from cordwood.registry.schemas.json.nodes import (
    Array,
    Boolean,
    Combined,
    Conditional,
    Criterion,
    Node,
    Not,
    Null,
    Number,
    Object,
    String,
    Values,
)

from .avro_types import ColumnType


class Shape:
    """A node as a column: `kind` is text, string, boolean, integer, number, struct, map or list."""

    def __init__(self, kind: str, fields: dict[str, Shape] | None = None, inner: Shape | None = None) -> None:
        self.kind = kind
        self.fields = fields or {}
        """The fields of a struct."""
        self.inner = inner
        """The type of a map's values, or a list's items."""

    @property
    def type(self) -> pa.DataType:
        if self.inner is not None:
            inner = self.inner.type
            return pa.map_(pa.string(), inner) if self.kind == "map" else pa.list_(pa.field("element", inner))
        if self.kind == "struct":
            return pa.struct([pa.field(name, field.type) for name, field in self.fields.items()])
        return _PLAIN[self.kind]


_PLAIN = {
    "text": pa.string(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
}
_TEXT = Shape("text")


def json_column(shape: Shape) -> ColumnType:
    return ColumnType(shape.type, nullable=True)


def json_shape(node: Node, within: frozenset[int] = frozenset()) -> Shape:
    """`within` are the nodes around it, by identity."""
    if id(node) in within:
        return _TEXT
    inner = within | {id(node)}
    match node:
        case String():
            return Shape("string")
        case Boolean():
            return Shape("boolean")
        case Number():
            return Shape("integer" if node.is_integer else "number")
        case Values():
            return _of_values([json.loads(value) for value in node.values])
        case Object():
            return _of_object(node, inner)
        case Array() if node.items is not None and not node.prefix:
            return Shape("list", inner=json_shape(node.items, inner))
        case Combined():
            return _of_all(node, inner) if node.criterion is Criterion.ALL else _of_any(node, inner)
    return _TEXT


def _of_values(values: list[Any]) -> Shape:
    kinds = {type(value) for value in values if value is not None}
    names = {str: "string", bool: "boolean", int: "integer"}
    return Shape(names[kinds.pop()]) if len(kinds) == 1 and kinds <= names.keys() else _TEXT


def _of_object(node: Object, within: frozenset[int]) -> Shape:
    if node.properties:
        return Shape("struct", {name: json_shape(field, within) for name, field in node.properties.items()})
    if node.additional is not None and not node.pattern_properties:
        return Shape("map", inner=json_shape(node.additional, within))
    return _TEXT


def _of_any(node: Combined, within: frozenset[int]) -> Shape:
    shapes = [json_shape(each, within) for each in node.schemas if not isinstance(each, Null)]
    if len(shapes) == 1:
        return shapes[0]
    kinds = {shape.kind for shape in shapes}
    if kinds and kinds <= {"integer", "number"}:
        return Shape("number" if "number" in kinds else "integer")
    return Shape(kinds.pop()) if len(kinds) == 1 and kinds <= {"string", "boolean"} else _TEXT


def _of_all(node: Combined, within: frozenset[int]) -> Shape:
    """Keywords that only restrict values don't affect the type."""
    typed = [each for each in node.schemas if not isinstance(each, Not | Conditional)]
    shapes = [json_shape(each, within) for each in typed if not isinstance(each, Values)]
    known = [shape for shape in shapes if shape.kind != "text"]
    if not shapes:
        return json_shape(typed[0], within) if typed else _TEXT
    if known and all(shape.kind == "struct" for shape in known):
        return Shape("struct", {name: field for shape in known for name, field in shape.fields.items()})
    return known[0] if len({shape.kind for shape in known}) == 1 and len(known) == 1 else _TEXT
