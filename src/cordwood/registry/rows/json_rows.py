"""Columns to rows of JSON: bytes are base64, dates and times ISO 8601, decimals text. Null fields are left out, unless
the schema requires them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cordwood.registry.rows.arrays import is_bytes, is_list, is_text
from cordwood.registry.rows.row_encoder import CannotEncode

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Convert = Callable[[Any], Any]
"""Converts Arrow's Python value, never None, to one for `json.dumps`."""


def json_rows(
    array: pa.Array, document: Any, path: str, check: Callable[[Any], None] | None = None
) -> Iterator[bytes | None]:
    """Rows that are null as a whole stay null. Raises `CannotEncode`, or the error of `check` for a row."""
    convert = json_converter(array.type, document, path)
    for row in array.to_pylist(maps_as_pydicts="strict"):
        if row is None:
            yield None
            continue
        value = convert(row)
        if check is not None:
            check(value)
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def json_converter(kind: pa.DataType, document: Any, path: str) -> Convert:
    """`document` has the required fields; a validator checks the values."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return _object(kind, document, path)
    if is_list(kind):
        item = json_converter(kind.value_type, _within(document, "items"), f"{path}[]")
        return lambda values: [None if value is None else item(value) for value in values]
    if pa.types.is_map(kind):
        if not is_text(kind.key_type):
            raise CannotEncode(f"{path} is a map with keys of type {kind.key_type}; JSON has names only")
        entry = json_converter(kind.item_type, _within(document, "additionalProperties"), f"{path}{{}}")
        return lambda values: {name: None if value is None else entry(value) for name, value in values.items()}
    if is_bytes(kind):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_decimal(kind):
        is_number = _within(document, "type") in ("number", ["number", "null"], ["null", "number"])
        return float if is_number else str
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz is not None else datetime.isoformat
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return lambda value: value.isoformat()
    if pa.types.is_floating(kind):
        return lambda value: _finite(value, path)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or is_text(kind) or pa.types.is_null(kind):
        return lambda value: value
    raise CannotEncode(f"{path} is of type {kind}, which JSON has no form for; cast the column")


def _object(kind: pa.DataType, document: Any, path: str) -> Convert:
    required = set(_within(document, "required") or ())
    properties = _within(document, "properties") or {}
    fields = [kind.field(at) for at in range(kind.num_fields)]
    converts = {
        field.name: json_converter(field.type, _within(properties, field.name), f"{path}.{field.name}")
        for field in fields
    }

    def convert(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: None if value is None else converts[name](value)
            for name, value in values.items()
            if value is not None or name in required
        }

    return convert


def _within(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _finite(value: float, path: str) -> float:
    if value - value != 0:
        raise CannotEncode(f"{path} is {value}, which JSON has no number for")
    return value
