"""Values to bytes and back, by a parsed schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import fastavro
import jsonschema_rs
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Schema
from cordwood.runtime.files.byte_files import BytesIO

from .framing import BadFrame

# Compiled once for each schema, which is the same object for as long as a client keeps it.
_COMPILED = 1_000


def encode_avro(schema: AvroSchema, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, compiled_avro(schema), value)
    return out.getvalue()


def decode_avro(schema: AvroSchema, data: bytes, reader: Schema | None) -> Any:
    """As the reader's schema has it, if one is given."""
    wanted = compiled_avro(reader) if isinstance(reader, AvroSchema) else None
    return fastavro.schemaless_reader(BytesIO(data), compiled_avro(schema), wanted)


@lru_cache(_COMPILED)
def compiled_avro(schema: AvroSchema) -> Any:
    return fastavro.parse_schema(json.loads(schema.resolved))


def encode_json(schema: JsonSchema, value: Any) -> bytes:
    json_validator(schema)(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(schema: JsonSchema, data: bytes) -> Any:
    value = json.loads(data)
    json_validator(schema)(value)
    return value


@lru_cache(_COMPILED)
def json_validator(schema: JsonSchema) -> Callable[[Any], None]:
    """Raises `jsonschema_rs.ValidationError` for a value that does not have this schema."""

    def retrieve(uri: str) -> Any:
        for name, document in schema.others.items():
            if uri == name or uri.endswith(f"/{name}"):
                return document
        raise LookupError(uri)

    return jsonschema_rs.validator_for(schema.document, retriever=retrieve).validate


def encode_protobuf(value: Message) -> bytes:
    return value.SerializeToString()


def decode_protobuf(schema: ProtobufSchema, indexes: list[int], data: bytes) -> Message:
    return message_class(schema, tuple(indexes)).FromString(data)


@lru_cache(_COMPILED)
def message_class(schema: ProtobufSchema, indexes: tuple[int, ...]) -> type[Message]:
    return message_factory.GetMessageClass(message_descriptor(schema, indexes))


def message_descriptor(schema: ProtobufSchema, indexes: tuple[int, ...]) -> Descriptor:
    """The index of a message in its file. Raises `BadFrame`."""
    messages = schema.file.messages
    names = [schema.file.package] if schema.file.package else []
    try:
        for index in indexes:
            # Maps are messages, too, in a descriptor; they never occur on their own.
            message = messages[index]
            names.append(message.name)
            messages = message.messages
    except IndexError:
        raise BadFrame(f"the schema has no message {list(indexes)}") from None
    assert schema.descriptor is not None
    return schema.pool.FindMessageTypeByName(".".join(names))


def indexes_of(schema: ProtobufSchema, value: Message) -> list[int]:
    """The index path of a message's type in the file. Raises `BadFrame`."""
    package = schema.file.package
    name = value.DESCRIPTOR.full_name
    names = (name.removeprefix(f"{package}.") if package else name).split(".")
    messages, indexes = schema.file.messages, []
    for each in names:
        found = [index for index, message in enumerate(messages) if message.name == each]
        if not found:
            raise BadFrame(f"the schema has no message {name}")
        indexes.append(found[0])
        messages = messages[found[0]].messages
    return indexes
