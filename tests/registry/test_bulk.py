"""Values in bulk between Arrow and registered schemas, beside the serializers for single values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from cordwood import Consumer, Producer, TopicPartition
from cordwood.registry import ArrowDeserializer, ArrowSerializer, Deserializer, RegistryClient, Serializer
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import message_class
from cordwood.testing.embedded import EmbeddedNode
from tests.registry.registry_fixtures import Rest

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "items", "type": {"type": "array", "items": "string"}}],
    }
)
WIDER = AVRO.replace('"fields": [', '"fields": [{"name": "note", "type": "string", "default": "none"}, ')
JSON = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "items": {"type": "array", "items": {"type": "string"}}},
    }
)
PROTOBUF = """syntax = "proto3"; package shop;
message Note { string text = 1; }
message Order { int64 id = 1; repeated string items = 2; }"""
ORDERS = [{"id": 1, "items": ["pen", "ink"]}, None, {"id": 2, "items": []}]


@pytest.fixture
def client(rest: Rest) -> RegistryClient:
    return RegistryClient(rest.url)


@pytest.mark.parametrize(
    ("schema_type", "text", "message"),
    [("AVRO", AVRO, None), ("JSON", JSON, None), ("PROTOBUF", PROTOBUF, "shop.Order")],
)
def test_arrays_are_written_and_read_in_each_format(
    client: RegistryClient, subject: str, schema_type: str, text: str, message: str | None
) -> None:
    written = ArrowSerializer(client, subject, text, schema_type, message=message)(pa.array(ORDERS))
    read = ArrowDeserializer(client, client.latest(subject).schema, message=message)(written)
    assert (read.values.to_pylist(), list(read.bad)) == (ORDERS, [])
    single = Deserializer(client)(written[0].as_py())
    assert (single if schema_type != "PROTOBUF" else {"id": single.id, "items": list(single.items)}) == ORDERS[0]


def test_what_serializers_write_is_read_in_bulk_with_its_id_in_front_or_in_a_header(
    client: RegistryClient, subject: str
) -> None:
    ided, named = (Serializer(client, AVRO, subject=subject, use_headers=given) for given in (False, True))
    payload, headers = named.with_header({"id": 2, "items": ["axe"]})
    values = pa.array([ided({"id": 1, "items": []}), payload, b"neither", b"\0\x7f\xff\xff\xff"], pa.binary())
    kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    given = pa.array([[], [{"key": key, "value": value} for key, value in headers.items()], [], []], kind)
    reader = client.parsed(WIDER)
    decoded = ArrowDeserializer(client, reader)(values, given)
    assert decoded.values.to_pylist()[:2] == [
        {"note": "none", "id": 1, "items": []},
        {"note": "none", "id": 2, "items": ["axe"]},
    ]
    assert decoded.values.null_count == 2
    assert [row for row, _ in decoded.bad] == [2, 3]
    assert "does not begin with a schema id" in decoded.bad[0].reason
    assert "not in the registry" in decoded.bad[1].reason


def test_a_message_that_the_file_does_not_have_is_refused(client: RegistryClient, subject: str) -> None:
    with pytest.raises(ValueError, match=r"no message shop\.Gone; it has shop\.Note, shop\.Order"):
        ArrowSerializer(client, subject, PROTOBUF, "PROTOBUF", message="shop.Gone")
    schema = client.latest(subject).schema
    assert isinstance(schema, ProtobufSchema)
    other: Any = message_class(schema, (0,))
    note = Serializer(client, PROTOBUF, "PROTOBUF", subject=subject)(other(text="hello"))
    read = ArrowDeserializer(client, schema, message="shop.Order")
    assert [each.reason for each in read(pa.array([note])).bad] == ["it is a shop.Note, not a shop.Order"]


def test_a_topic_is_written_and_read_without_an_object_for_each_record(
    client: RegistryClient, node: EmbeddedNode, subject: str
) -> None:
    topic = node.topic()
    count = 10_000
    orders = pa.array([{"id": number, "items": [f"item {number}"]} for number in range(count)])
    write = ArrowSerializer(client, subject, AVRO)
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        producer.send_arrow(pa.table({"value": write(orders)}), topic).result()
    read = ArrowDeserializer(client, client.latest(subject).schema)
    found: list[Any] = []
    with Consumer(bootstrap_servers=node.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        for batch in consumer.arrow(headers=True):
            found += read(batch.column("value"), batch.column("headers")).values.to_pylist()
            if len(found) == count:
                break
    assert found == orders.to_pylist()
