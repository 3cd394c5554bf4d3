"""Serializers: what they write, Confluent's read, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import cordwood.testing.embedded
from cordwood import Consumer, Producer
from cordwood.registry import Deserializer, RegistryClient, RegistryRefused, Serializer, topic_subject
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.schemas.schema import Reference
from cordwood.registry.serializers.framing import BadFrame
from tests.registry.registry_fixtures import Rest, record

AVRO = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"t","type":["null","string"]}]}'
JSON = '{"title":"T","type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}'
PROTO = 'syntax = "proto3"; package p; message A {} message B { message C { int32 x = 1; } int32 y = 1; }'


@pytest.fixture(scope="module")
def ours(rest: Rest) -> RegistryClient:
    return RegistryClient(rest.url)


@pytest.fixture(scope="module")
def theirs(rest: Rest) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": rest.url}) as made:
        yield made


def _context(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def _message(name: str, **values: int) -> Message:
    schema = parse_schema("PROTOBUF", PROTO)
    assert isinstance(schema, ProtobufSchema)
    assert schema.descriptor.name
    return GetMessageClass(schema.pool.FindMessageTypeByName(name))(**values)


def test_avro_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    value = {"x": 5, "t": "text"}
    data = Serializer(ours, AVRO, subject=topic_subject(subject))(value)
    assert AvroDeserializer(theirs)(data, _context(subject)) == value
    written = AvroSerializer(theirs, AVRO)(value, _context(subject))
    assert written == data
    assert Deserializer(ours)(data) == value


def test_json_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    data = Serializer(ours, JSON, "JSON", subject=topic_subject(subject))({"x": 5})
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(data, _context(subject)) == {"x": 5}
    written = JSONSerializer(JSON, theirs)({"x": 5}, _context(subject))
    assert written is not None
    assert Deserializer(ours)(written) == {"x": 5}
    with pytest.raises(ValueError, match="x"):
        Serializer(ours, JSON, "JSON", subject=topic_subject(subject))({})


@pytest.mark.parametrize(("name", "field"), [("p.A", None), ("p.B", "y"), ("p.B.C", "x")])
def test_protobuf_both_ways(
    ours: RegistryClient, theirs: SchemaRegistryClient, subject: str, name: str, field: str | None
) -> None:
    message = _message(name, **({} if field is None else {field: 7}))
    data = Serializer(ours, PROTO, "PROTOBUF", subject=topic_subject(subject))(message)
    options = {"use.deprecated.format": False}
    read = ProtobufDeserializer(type(message), options, theirs)(data, _context(subject))
    assert read == message
    written = ProtobufSerializer(type(message), theirs, options)(message, _context(f"{subject}-t"))
    assert written is not None
    again = Deserializer(ours)(written)
    assert again.SerializeToString() == message.SerializeToString()
    assert again.DESCRIPTOR.full_name == name


def test_schema_named_by_a_header_both_ways(ours: RegistryClient, theirs: SchemaRegistryClient, subject: str) -> None:
    # Longer than a prefix, without which Confluent's Python client does not look at headers.
    value = {"x": 5, "t": "longer"}
    data, headers = Serializer(ours, AVRO, subject=topic_subject(subject)).with_header(value)
    assert AvroDeserializer(theirs)(data, _context(subject, list(headers.items()))) == value
    sent: list[tuple[str, bytes]] = []
    serializer = AvroSerializer(theirs, AVRO, conf={"schema.id.serializer": header_schema_id_serializer})
    written = serializer(value, _context(subject, sent))
    assert (written, dict(sent)) == (data, headers)
    assert Deserializer(ours).from_record(written, sent) == value


def test_older_records_are_resolved_to_the_readers_schema(ours: RegistryClient, subject: str) -> None:
    data = Serializer(ours, record("R", "x"), subject=topic_subject(subject))({"x": 5})
    assert Deserializer(ours, record("R", "x", "y=1"))(data) == {"x": 5, "y": 1}


def test_references_are_resolved(ours: RegistryClient, subject: str) -> None:
    ours.register(subject, '{"type":"record","name":"A","fields":[{"name":"n","type":"int"}]}')
    using = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    serializer = Serializer(ours, using, subject=f"{subject}-b", references=[Reference("A", subject, 1)])
    assert Deserializer(ours)(serializer({"a": {"n": 3}})) == {"a": {"n": 3}}


def test_schemas_are_not_registered_where_that_is_off(ours: RegistryClient, subject: str) -> None:
    with pytest.raises(RegistryRefused) as refused:
        Serializer(ours, AVRO, subject=subject, auto_register=False)({"x": 1, "t": None})
    assert refused.value.code == 40401
    ours.register(subject, AVRO)
    assert Serializer(ours, subject=subject, use_latest=True)({"x": 1, "t": None})


def test_bytes_without_a_schema_are_refused(ours: RegistryClient) -> None:
    for data in (b"", b"\x00\x00", b"\x05abcdef"):
        with pytest.raises(BadFrame):
            Deserializer(ours)(data)


def test_producer_and_consumer_use_them(
    node: cordwood.testing.embedded.EmbeddedNode, ours: RegistryClient, subject: str
) -> None:
    node.topic(subject)
    serializer = Serializer(ours, AVRO, subject=topic_subject(subject))
    with Producer(bootstrap_servers=node.bootstrap, value_serializer=serializer) as producer:
        producer.send(subject, {"x": 1, "t": "one"})
    with Consumer(
        subject,
        bootstrap_servers=node.bootstrap,
        group_id=subject,
        auto_offset_reset="earliest",
        value_deserializer=Deserializer(ours),
    ) as consumer:
        assert next(iter(consumer)).value == {"x": 1, "t": "one"}
