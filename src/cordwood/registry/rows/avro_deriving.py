"""An Avro schema for columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from cordwood.registry.rows.arrays import is_bytes, is_integer, is_list, is_text
from cordwood.registry.rows.row_encoder import CannotEncode
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.avro.types import Array, Map, Record, Type, Union

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def derived_avro(rows: pa.StructType, name: str, latest: AvroSchema | None) -> str:
    """Raises `CannotEncode`."""
    deriving = _Deriving()
    return json.dumps(deriving.record(rows, name, "value", None if latest is None else latest.root))


class _Deriving:
    def __init__(self) -> None:
        self._names: set[str] = set()

    def record(self, kind: pa.StructType, name: str, path: str, latest: Type | None) -> dict[str, Any]:
        known = {field.name: field.type for field in latest.fields} if isinstance(latest, Record) else {}
        chosen = self._unique(latest.full_name if isinstance(latest, Record) else name)
        fields = [kind.field(at) for at in range(kind.num_fields)]
        if known:
            # Records of the latest version do not have it.
            fields = [field if field.name in known else field.with_nullable(True) for field in fields]
        return {
            "type": "record",
            "name": chosen,
            "fields": [self._field(field, chosen, f"{path}.{field.name}", known.get(field.name)) for field in fields],
        }

    def _field(self, field: pa.Field, within: str, path: str, latest: Type | None) -> dict[str, Any]:
        if not _NAME.fullmatch(field.name):
            raise CannotEncode(f"{path}: Avro's names have letters, digits and _ only; rename the column")
        of = self._of(field, f"{within}_{field.name}", path, latest)
        return {"name": field.name, "type": of, "default": None} if field.nullable else {"name": field.name, "type": of}

    def _of(self, field: pa.Field, name: str, path: str, latest: Type | None) -> Any:
        import pyarrow as pa

        if isinstance(latest, Union):
            branches = [branch for branch in latest.branches if branch.kind != "null"]
            latest = branches[0] if len(branches) == 1 else None
        of = self._type(field.type, name, path, latest)
        return ["null", of] if field.nullable and not pa.types.is_null(field.type) else of

    def _type(self, kind: pa.DataType, name: str, path: str, latest: Type | None) -> Any:
        import pyarrow as pa

        if pa.types.is_struct(kind):
            return self.record(kind, name, path, latest)
        if is_list(kind):
            known = latest.items if isinstance(latest, Array) else None
            return {"type": "array", "items": self._of(kind.value_field, name, f"{path}[]", known)}
        if pa.types.is_map(kind):
            if not is_text(kind.key_type):
                raise CannotEncode(f"{path} is a map with keys of type {kind.key_type}; Avro's keys are strings")
            known = latest.values if isinstance(latest, Map) else None
            return {"type": "map", "values": self._of(kind.item_field, name, f"{path}{{}}", known)}
        return _leaf(kind, path)

    def _unique(self, name: str) -> str:
        chosen, number = name, 2
        while chosen in self._names:
            chosen, number = f"{name}{number}", number + 1
        self._names.add(chosen)
        return chosen


def _leaf(kind: pa.DataType, path: str) -> Any:
    import pyarrow as pa

    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_boolean(kind):
        return "boolean"
    if is_integer(kind):
        return "int" if kind.bit_width <= 32 else "long"
    if pa.types.is_float32(kind):
        return "float"
    if pa.types.is_float64(kind):
        return "double"
    if is_text(kind):
        return "string"
    if is_bytes(kind):
        return "bytes"
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    raise CannotEncode(f"{path} is of type {kind}, which Avro has no type for; cast the column")
