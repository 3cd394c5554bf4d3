"""The full names of the types that schemas describe."""

from __future__ import annotations

import json

from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import AVRO, JSON


def record_name_of(schema_type: str, text: str) -> str:
    """Avro: the full name of a named type. JSON: the title. Protobuf: the first message. Raises `ValueError`."""
    if schema_type == AVRO:
        return _avro_name(json.loads(text))
    if schema_type == JSON:
        document = json.loads(text)
        title = document.get("title") if isinstance(document, dict) else None
        if not isinstance(title, str) or not title:
            raise ValueError("a JSON schema needs a title for a subject by its record's name")
        return title
    schema = parse_schema(schema_type, text, validate=False)
    assert isinstance(schema, ProtobufSchema)
    if not schema.file.messages:
        raise ValueError("the Protobuf schema has no message")
    name = schema.file.messages[0].name
    return f"{schema.file.package}.{name}" if schema.file.package else name


def _avro_name(schema: object) -> str:
    name = schema.get("name") if isinstance(schema, dict) else None
    if not isinstance(name, str):
        raise ValueError("an Avro schema needs a name for a subject by its record's name: a record, enum or fixed")
    assert isinstance(schema, dict)
    namespace = schema.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
