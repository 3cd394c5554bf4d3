"""**Serializer** and **Deserializer**, for `value_serializer`, `key_serializer` and their counterparts of a consumer.

>>> serializer = Serializer(client, ORDER_SCHEMA)
>>> with Producer(bootstrap_servers="localhost:9092", value_serializer=serializer) as producer:
...     producer.send("orders", {"id": 1})
>>> with Consumer("orders", bootstrap_servers="localhost:9092", value_deserializer=Deserializer(client)) as consumer:
...     print(next(iter(consumer)).value)

The clients of this project pass them the topic and the headers of each record. On an event loop they never block: what
they need of the registry is loaded in a thread, while the client waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from cordwood.client.schema_hooks import or_load
from cordwood.registry.client import RegisteredSchema, RegistryClient
from cordwood.registry.schemas.avro.schema import AvroSchema
from cordwood.registry.schemas.json.schema import JsonSchema
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import AVRO, Reference, Schema
from cordwood.runtime.clock import Clock, SystemClock

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
from .names import record_name_of
from .strategies import Strategy, topic_strategy

_LATEST_MAX_AGE_S = 60.0


class Serializer:
    """Registers the schema at the first value, unless `auto_register=False`: then it must be registered already.

    `subject` is a name, or a strategy that follows each record: `topic_strategy` (the default), `record_strategy`,
    `topic_record_strategy`. `use_latest` takes the subject's latest version instead of a text, and refreshes it after
    `latest_max_age_s`. `use_headers` names the schema by its guid in a header instead of by its id in front.
    """

    def __init__(
        self,
        client: RegistryClient,
        schema: str = "",
        schema_type: str = AVRO,
        *,
        subject: str | Strategy = topic_strategy,
        references: Sequence[Reference] = (),
        auto_register: bool = True,
        use_latest: bool = False,
        latest_max_age_s: float = _LATEST_MAX_AGE_S,
        use_headers: bool = False,
        normalize: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._text = schema
        self._type = schema_type
        self._subject = subject
        self._references = tuple(references)
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._latest_max_age_s = latest_max_age_s
        self._use_headers = use_headers
        self._normalize = normalize
        self._clock = clock if clock is not None else SystemClock()
        # By subject, with the time when it was loaded.
        self._schemas: dict[str, tuple[RegisteredSchema, float]] = {}
        self._record_name: str | None = None

    def __call__(self, value: Any) -> bytes:
        """Serializes with the id in front. The subject must be a name: a strategy needs the topic."""
        if not isinstance(self._subject, str):
            raise ValueError("a subject strategy needs the topic of each record: use serialize(), or give a subject")
        schema = self._registered(self._subject)
        indexes, data = _encoded(schema.schema, value)
        return prefix(schema, indexes) + data

    def serialize(
        self, topic: str, content: Any, *, is_key: bool = False
    ) -> tuple[bytes, Sequence[tuple[str, bytes | None]]]:
        """Returns the bytes of a record of this topic, and headers to add. The producers of this project call it."""
        schema = self._registered(self._subject_of(topic, content, is_key=is_key))
        indexes, data = _encoded(schema.schema, content)
        if self._use_headers:
            return data, [(KEY_HEADER if is_key else VALUE_HEADER, header(schema, indexes))]
        return prefix(schema, indexes) + data, ()

    def with_header(self, value: Any, *, is_key: bool = False) -> tuple[bytes, dict[str, bytes]]:
        """The payload alone, and the headers that name its schema: for `send(…, headers=…)` of any producer."""
        if not isinstance(self._subject, str):
            raise ValueError("a subject strategy needs the topic of each record: use serialize(), or give a subject")
        schema = self._registered(self._subject)
        indexes, data = _encoded(schema.schema, value)
        return data, {KEY_HEADER if is_key else VALUE_HEADER: header(schema, indexes)}

    def _subject_of(self, topic: str, value: Any, *, is_key: bool) -> str:
        if isinstance(self._subject, str):
            return self._subject
        return self._subject(topic, lambda: self._record_name_of(value), is_key)

    def _record_name_of(self, value: Any) -> str:
        """The type of a Protobuf message; otherwise that of the schema."""
        if isinstance(value, Message):
            return value.DESCRIPTOR.full_name
        if self._record_name is None:
            if not self._text:
                raise ValueError("a record's name comes from its schema: give one, or a subject")
            self._record_name = record_name_of(self._type, self._text)
        return self._record_name

    def _registered(self, subject: str) -> RegisteredSchema:
        found = self._schemas.get(subject)
        if found is None or (self._use_latest and self._clock.monotonic() - found[1] > self._latest_max_age_s):
            or_load(f"the schema of subject {subject} cannot be loaded", lambda: self._load(subject))
            found = self._schemas[subject]
        return found[0]

    def _load(self, subject: str) -> None:
        if self._use_latest:
            schema = self._client.latest(subject)
        elif self._auto_register:
            schema = self._client.register(subject, self._text, self._type, self._references, normalize=self._normalize)
        else:
            schema = self._client.look_up(subject, self._text, self._type, self._references)
        self._schemas[subject] = (schema, self._clock.monotonic())


class Deserializer:
    """Reads records of any schema of a registry, named by an id in front or by a header. With `reader_schema`, Avro's
    are resolved to it."""

    def __init__(self, client: RegistryClient, reader_schema: str | None = None, *, subject: str = "") -> None:
        self._client = client
        self._reader = None if reader_schema is None else parse_schema(AVRO, reader_schema)
        self._subject = subject

    def __call__(self, data: bytes) -> Any:
        """Deserializes a payload with the id in front. Raises `BadFrame`, or the errors of the format's library."""
        id_, rest = split_prefix(data)
        schema = self._loaded(
            f"schema {id_} cannot be loaded",
            lambda: self._client.known_by_id(id_, self._subject),
            lambda: self._client.by_id(id_, self._subject),
        ).schema
        indexes, payload = decode_indexes(rest) if isinstance(schema, ProtobufSchema) else ([], rest)
        return self._decoded(schema, indexes, payload)

    def deserialize(self, data: bytes, headers: Iterable[tuple[str, bytes | None]], *, is_key: bool = False) -> Any:
        """Deserializes a record with these headers. Called by this project's consumers."""
        return self.from_record(data, headers, is_key=is_key)

    def from_record(self, data: bytes | None, headers: Headers, *, is_key: bool = False) -> Any:
        """Deserializes a payload whose schema is named by a header; without one, the id is in front."""
        if data is None:
            return None
        named = header_of(headers, is_key=is_key)
        if named is None:
            return self(data)
        guid, rest = split_header(named)
        schema = self._loaded(
            f"schema {guid} cannot be loaded",
            lambda: self._client.known_by_guid(guid),
            lambda: self._client.by_guid(guid),
        ).schema
        indexes = decode_indexes(rest)[0] if isinstance(schema, ProtobufSchema) else []
        return self._decoded(schema, indexes, data)

    def _loaded(
        self, what: str, known: Callable[[], RegisteredSchema | None], load: Callable[[], RegisteredSchema]
    ) -> RegisteredSchema:
        found = known()
        if found is None:
            or_load(what, load)
            found = load()
        return found

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
