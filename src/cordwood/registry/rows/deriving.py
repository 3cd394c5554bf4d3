"""Derives a schema for columns without one.

>>> derived_schema(AVRO, pa.struct([("id", pa.int64())]), "Order", None)
'{"type": "record", "name": "Order", "fields": [{"name": "id", "type": ["null", "long"], "default": null}]}'

If the subject has a schema, its names, and Protobuf's field numbers, are kept, so that the new schema can be its next
version. Columns that may be null become optional fields, and so do those that the subject's schema does not have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cordwood.registry.rows.avro_deriving import derived_avro
from cordwood.registry.rows.json_deriving import derived_json
from cordwood.registry.rows.protobuf_deriving import derived_protobuf
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import AVRO, PROTOBUF, Schema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def derived_schema(schema_type: str, rows: pa.StructType, name: str, latest: Schema | None) -> str:
    """`latest` is the subject's latest version, if it has one.

    Raises `CannotEncode` for a column that the format has no type for."""
    if schema_type == AVRO:
        return derived_avro(rows, name, latest if isinstance(latest, AvroSchema) else None)
    if schema_type == PROTOBUF:
        return derived_protobuf(rows, name, latest if isinstance(latest, ProtobufSchema) else None)
    return derived_json(rows, name, latest if isinstance(latest, JsonSchema) else None)


def type_name_of(topic: str) -> str:
    """A record's name, from its topic's: `web.page-views` is WebPageViews."""
    words = re.findall(r"[A-Za-z0-9]+", topic)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name and not name[0].isdigit() else f"Record{name}"
