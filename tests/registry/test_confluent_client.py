"""Confluent's own Python client and serializers, unchanged, against our registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.registry.registry_fixtures import Rest, record

SCHEMAS = {
    "AVRO": (record("R", "x"), record("R", "x", "y=1"), record("R", "z")),
    "JSON": (
        '{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false}',
        '{"type":"object","properties":{"x":{"type":"number"}},"additionalProperties":false}',
        '{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}',
    ),
    "PROTOBUF": (
        'syntax = "proto3"; message M { int32 x = 1; }',
        'syntax = "proto3"; message M { int64 x = 1; string y = 2; }',
        'syntax = "proto3"; message M { string x = 1; }',
    ),
}


@pytest.fixture(scope="module")
def client(rest: Rest) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": rest.url}) as made:
        yield made


@pytest.mark.parametrize("schema_type", SCHEMAS)
def test_client_registers_evolves_looks_up_checks_and_deletes(
    client: SchemaRegistryClient, subject: str, schema_type: str
) -> None:
    first, second, third = (Schema(text, schema_type) for text in SCHEMAS[schema_type])
    id_ = client.register_schema(subject, first)
    assert client.register_schema(subject, first) == id_
    assert client.get_schema(id_).schema_type == schema_type
    assert client.test_compatibility(subject, second)
    assert not client.test_compatibility(subject, third)
    later = client.register_schema(subject, second)
    assert later != id_
    with pytest.raises(SchemaRegistryError, match="incompatible") as refused:
        client.register_schema(subject, third)
    assert refused.value.error_code == 40901
    assert client.lookup_schema(subject, second).version == 2
    assert client.get_latest_version(subject).schema_id == later
    assert client.get_versions(subject) == [1, 2]
    assert subject in client.get_subjects()
    assert client.delete_subject(subject) == [1, 2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]


def test_client_sets_levels_and_reads_references(client: SchemaRegistryClient, subject: str) -> None:
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    client.register_schema(subject, Schema('{"type":"record","name":"A","fields":[]}', "AVRO"))
    using = Schema(
        '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}', "AVRO", [SchemaReference("A", subject, 1)]
    )
    id_ = client.register_schema(f"{subject}-b", using)
    references = client.get_schema(id_).references
    assert references is not None
    assert references[0].subject == subject


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_serializer_round_trip(client: SchemaRegistryClient, subject: str) -> None:
    serializer = AvroSerializer(client, SCHEMAS["AVRO"][0])
    data = serializer({"x": 5}, _context(subject))
    assert AvroDeserializer(client)(data, _context(subject)) == {"x": 5}


def test_json_serializer_round_trip(client: SchemaRegistryClient, subject: str) -> None:
    text = json.dumps({"title": "T", **json.loads(SCHEMAS["JSON"][0])})
    data = JSONSerializer(text, client)({"x": 5}, _context(subject))
    assert JSONDeserializer(text, schema_registry_client=client)(data, _context(subject)) == {"x": 5}


def _message_class() -> Any:
    """A message of a file that imports another one and a well-known type, as in generated code."""
    pool = DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    other = descriptor_pb2.FileDescriptorProto(name="other.proto", package="o", syntax="proto3")
    other.message_type.add(name="Part").field.add(name="n", number=1, type=5, label=1)
    pool.Add(other)
    own = descriptor_pb2.FileDescriptorProto(name="own.proto", package="p", syntax="proto3")
    own.dependency.extend(["other.proto", "google/protobuf/timestamp.proto"])
    own.message_type.add(name="First")
    whole = own.message_type.add(name="Whole")
    whole.field.add(name="part", number=1, type=11, type_name=".o.Part", label=1)
    whole.field.add(name="at", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    whole.field.add(name="tags", number=3, type=9, label=3)
    pool.Add(own)
    return GetMessageClass(pool.FindMessageTypeByName("p.Whole"))


def test_protobuf_serializer_registers_descriptors_with_references(
    client: SchemaRegistryClient, rest: Rest, subject: str
) -> None:
    whole = _message_class()
    message = whole(tags=["a", "b"])
    message.part.n = 7
    message.at.seconds = 3
    serializer = ProtobufSerializer(whole, client, {"use.deprecated.format": False})
    data = serializer(message, _context(subject))
    read = ProtobufDeserializer(whole, {"use.deprecated.format": False}, client)(data, _context(subject))
    assert (read.part.n, read.at.seconds, list(read.tags)) == (7, 3, ["a", "b"])
    stored = rest("GET", f"/subjects/{subject}-value/versions/1").body
    assert stored["schemaType"] == "PROTOBUF"
    assert "message Whole {" in stored["schema"]
    assert [reference["name"] for reference in stored["references"]] == ["other.proto"]
    serialized = rest("GET", f"/subjects/{subject}-value/versions/1?format=serialized").body["schema"]
    assert rest.register(subject, serialized, "PROTOBUF", references=stored["references"]).status == 200
