"""A JSON schema for columns. Objects are closed: a property that is added to an open one is an incompatible change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cordwood.registry.rows.arrays import is_bytes, is_integer, is_list, is_text
from cordwood.registry.rows.row_encoder import CannotEncode
from cordwood.registry.schemas.json.schema import JsonSchema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_DIALECT = "http://json-schema.org/draft-07/schema#"


def derived_json(rows: pa.StructType, name: str, latest: JsonSchema | None) -> str:
    """Raises `CannotEncode`."""
    document = None if latest is None else latest.document
    title = document.get("title", name) if isinstance(document, dict) else name
    return json.dumps({"$schema": _DIALECT, "title": title} | _object(rows, "value", document))


def _object(kind: pa.StructType, path: str, latest: Any = None) -> dict[str, Any]:
    known = latest.get("properties") if isinstance(latest, dict) else None
    fields = [kind.field(at) for at in range(kind.num_fields)]
    made: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _type(field.type, f"{path}.{field.name}") for field in fields},
        "additionalProperties": False,
    }
    # Records of the latest version lack new fields.
    required = [field.name for field in fields if not field.nullable and (not known or field.name in known)]
    return made | {"required": required} if required else made


def _type(kind: pa.DataType, path: str) -> dict[str, Any]:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return _object(kind, path)
    if is_list(kind):
        return {"type": "array", "items": _item(kind.value_field, f"{path}[]")}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _item(kind.item_field, f"{path}{{}}")}
    if pa.types.is_null(kind):
        return {"type": "null"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    if is_text(kind) or pa.types.is_decimal(kind):
        return {"type": "string"}
    if is_bytes(kind):
        return {"type": "string", "contentEncoding": "base64"}
    if pa.types.is_date(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_timestamp(kind):
        # RFC 3339, which this format requires, has no times without a zone.
        return {"type": "string", "format": "date-time"} if kind.tz is not None else {"type": "string"}
    raise CannotEncode(f"{path} is of type {kind}, which JSON has no type for; cast the column")


def _item(field: pa.Field, path: str) -> dict[str, Any]:
    """For items of a list or a map, where null cannot be omitted."""
    of = _type(field.type, path)
    return {**of, "type": [of["type"], "null"]} if field.nullable and of["type"] != "null" else of
