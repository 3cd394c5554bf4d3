"""**Serializer** and **Deserializer**, for `value_serializer`, `key_serializer` and their counterparts of a consumer.

>>> serializer = Serializer(client, ORDER_SCHEMA, subject="orders-value")
>>> with Producer(bootstrap_servers="localhost:9092", value_serializer=serializer) as producer:
...     producer.send("orders", {"id": 1})
>>> with Consumer("orders", bootstrap_servers="localhost:9092", value_deserializer=Deserializer(client)) as consumer:
...     print(next(iter(consumer)).value)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cordwood.registry.client import RegisteredSchema, RegistryClient
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import AVRO, Reference, Schema

from .codecs import decode_avro, decode_json, decode_protobuf, encode_avro, encode_json, encode_protobuf, indexes_of
from .framing import (
    KEY_HEADER,
    VALUE_HEADER,
    Headers,
    decode_indexes,
    encode_indexes,
    header,
    header_of,
    prefix,
    split_header,
    split_prefix,
)


def topic_subject(topic: str, *, is_key: bool = False) -> str:
    """Confluent's TopicNameStrategy."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_subject(record_name: str) -> str:
    """Confluent's RecordNameStrategy: by a type's full name."""
    return record_name


def topic_record_subject(topic: str, record_name: str) -> str:
    """Confluent's TopicRecordNameStrategy."""
    return f"{topic}-{record_name}"


class Serializer:
    """Registers the schema at the first value, unless `auto_register=False`: then it has to be there. `use_latest`
    takes the subject's latest version instead of a text."""

    def __init__(
        self,
        client: RegistryClient,
        schema: str = "",
        schema_type: str = AVRO,
        *,
        subject: str,
        references: Sequence[Reference] = (),
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
    ) -> None:
        self._client = client
        self._text = schema
        self._type = schema_type
        self._subject = subject
        self._references = tuple(references)
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._normalize = normalize
        self._schema: RegisteredSchema | None = None

    def __call__(self, value: Any) -> bytes:
        """With the id in front."""
        schema = self._registered()
        indexes, data = _encoded(schema.schema, value)
        return prefix(schema, indexes) + data

    def with_header(self, value: Any, *, is_key: bool = False) -> tuple[bytes, dict[str, bytes]]:
        """The payload alone, and the headers that name its schema: for `send(…, headers=…)`."""
        schema = self._registered()
        indexes, data = _encoded(schema.schema, value)
        return data, {KEY_HEADER if is_key else VALUE_HEADER: header(schema, indexes)}

    def _registered(self) -> RegisteredSchema:
        if self._schema is None:
            if self._use_latest:
                self._schema = self._client.latest(self._subject)
            elif self._auto_register:
                self._schema = self._client.register(
                    self._subject, self._text, self._type, self._references, normalize=self._normalize
                )
            else:
                self._schema = self._client.look_up(self._subject, self._text, self._type, self._references)
        return self._schema


class Deserializer:
    """Reads records of any schema of a registry. With `reader_schema`, Avro's are resolved to it."""

    def __init__(self, client: RegistryClient, reader_schema: str | None = None, *, subject: str = "") -> None:
        self._client = client
        self._reader = None if reader_schema is None else parse_schema(AVRO, reader_schema)
        self._subject = subject

    def __call__(self, data: bytes) -> Any:
        """Of a payload with the id in front. Raises `BadFrame`, or what the format's library raises."""
        id_, rest = split_prefix(data)
        schema = self._client.by_id(id_, self._subject).schema
        indexes, payload = decode_indexes(rest) if isinstance(schema, ProtobufSchema) else ([], rest)
        return self._decoded(schema, indexes, payload)

    def from_record(self, data: bytes | None, headers: Headers, *, is_key: bool = False) -> Any:
        """Of a payload whose schema a header names; without one, the id is in front."""
        if data is None:
            return None
        named = header_of(headers, is_key=is_key)
        if named is None:
            return self(data)
        guid, rest = split_header(named)
        schema = self._client.by_guid(guid).schema
        indexes = decode_indexes(rest)[0] if isinstance(schema, ProtobufSchema) else []
        return self._decoded(schema, indexes, data)

    def _decoded(self, schema: Schema, indexes: list[int], payload: bytes) -> Any:
        match schema:
            case AvroSchema():
                return decode_avro(schema, payload, self._reader)
            case JsonSchema():
                return decode_json(schema, payload)
            case ProtobufSchema():
                return decode_protobuf(schema, indexes, payload)
        raise AssertionError(schema)


def _encoded(schema: Schema, value: Any) -> tuple[bytes, bytes]:
    """Message indexes, and the payload."""
    match schema:
        case AvroSchema():
            return b"", encode_avro(schema, value)
        case JsonSchema():
            return b"", encode_json(schema, value)
        case ProtobufSchema():
            return encode_indexes(indexes_of(schema, value)), encode_protobuf(value)
    raise AssertionError(schema)
