"""**JsonPlan**, and the steps from JSON texts to the columns of a schema."""

from __future__ import annotations

from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.schema import Schema

from .arrays import new_column
from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NumberColumn, StructColumn
from .json_steps import (
    JsonBooleanStep,
    JsonIntegerStep,
    JsonListStep,
    JsonMapStep,
    JsonNumberStep,
    JsonObjectStep,
    JsonRootStep,
    JsonStringStep,
    JsonTextStep,
)
from .json_types import Shape, json_column, json_shape
from .plans import Plan, other_type
from .steps import Step


class JsonPlan(Plan):
    """Fields are found by name, independent of the writer's schema."""

    def __init__(self, reader: JsonSchema) -> None:
        shape = json_shape(reader.root)
        self.type = json_column(shape)
        self.column = new_column(self.type.type, nullable=True)
        self._steps = json_steps(shape, self.column)

    def steps(self, writer: Schema) -> Step:
        return self._steps if isinstance(writer, JsonSchema) else other_type(writer, "JSON")

    def bare_steps(self, writer: Schema, header: bytes) -> Step:
        return self.steps(writer)


def json_steps(shape: Shape, column: Column) -> Step:
    """`column` is `new_column` of `json_column(shape)`."""
    return JsonRootStep(_step(shape, column))


def _step(shape: Shape, column: Column) -> Step:
    match column:
        case StructColumn():
            fields = zip(shape.fields.values(), column.fields, strict=True)
            return JsonObjectStep(column, list(shape.fields), [_step(field, part) for field, part in fields])
        case ListColumn():
            assert shape.inner is not None
            if shape.kind == "list":
                return JsonListStep(column, _step(shape.inner, column.items))
            entries = column.items
            assert isinstance(entries, StructColumn)
            keys, values = entries.fields
            assert isinstance(keys, BytesColumn)
            return JsonMapStep(column, entries, keys, _step(shape.inner, values))
        case BytesColumn():
            return JsonStringStep(column) if shape.kind == "string" else JsonTextStep(column)
        case BooleanColumn():
            return JsonBooleanStep(column)
        case NumberColumn():
            return JsonIntegerStep(column) if shape.kind == "integer" else JsonNumberStep(column)
    raise AssertionError(column)
