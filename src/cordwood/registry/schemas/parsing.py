"""Texts of any type to schemas."""

from __future__ import annotations

from collections.abc import Sequence

from .schema import AVRO, JSON, PROTOBUF, InvalidSchema, Reference, Resolved, Schema


def parse_schema(
    schema_type: str,
    text: str,
    references: Sequence[Reference] = (),
    resolved: Resolved | None = None,
    *,
    validate: bool = True,
) -> Schema:
    """Raises `InvalidSchema`, also for a type that is not known. `validate` is for new schemas: stored ones may break
    rules that came later."""
    known = resolved if resolved is not None else {}
    try:
        schema = _parse(schema_type, text, references, known, validate=validate)
        if "\\u" in text:
            schema.canonical.encode()
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply") from None
    except UnicodeEncodeError:
        raise InvalidSchema("The schema has half of a pair of surrogates (\\ud800 to \\udfff)") from None
    return schema


def is_descriptor(text: str) -> bool:
    """Returns whether a Protobuf schema is given as a descriptor, and not as text."""
    from .protobuf.descriptors import decoded

    return decoded(text) is not None


def _parse(
    schema_type: str, text: str, references: Sequence[Reference], resolved: Resolved, *, validate: bool
) -> Schema:
    # Imported when they are needed: most registries have one type.
    match schema_type:
        case "AVRO":
            from .avro.schema import AvroSchema

            return AvroSchema.parse(text, references, resolved, validate=validate)
        case "JSON":
            from .json.schema import JsonSchema

            return JsonSchema.parse(text, references, resolved, validate=validate)
        case "PROTOBUF":
            from .protobuf.schema import ProtobufSchema

            return ProtobufSchema.parse(text, references, resolved, validate=validate)
    raise InvalidSchema(f"Invalid schema type {schema_type}: known are {AVRO}, {JSON} and {PROTOBUF}")
