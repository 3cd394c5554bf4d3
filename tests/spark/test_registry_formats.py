"""Protobuf and JSON values as typed columns: a real Spark, a real node, its registry."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import message_class
from tests.spark.registry_fixtures import RegistryNode
from tests.spark.test_registry_avro import told

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  repeated string tags = 2;
  map<string, Line> lines = 3;
  oneof way { string street = 4; int32 box = 5; }
  Kind kind = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.StringValue note = 8;
  uint64 big = 9;
  Order before = 10;
}
message Line { string sku = 1; double price = 2; }
enum Kind { NEW = 0; PAID = 1; }
"""


def order_class(text: str = PROTO, *indexes: int) -> Any:
    schema = parse_schema("PROTOBUF", text)
    assert isinstance(schema, ProtobufSchema)
    return message_class(schema, indexes or (0,))


def test_protobuf_messages_are_structs(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    message = order_class()
    full = message(id=7, tags=["a", "b"], box=9, kind=1, big=2**64 - 1)
    full.lines["x"].sku = "s"
    full.at.FromJsonString("2024-02-29T12:00:00.250Z")
    full.note.value = "hi"
    full.before.id = 6
    registry_node.create(topic)
    registry_node.produce(topic, [full, message()], PROTO, "PROTOBUF")
    first, second = told(registry_node.read(spark, topic, valueFormat="protobuf"))
    assert first.at.astimezone(datetime.UTC) == datetime.datetime(2024, 2, 29, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
    assert first.lines == {"x": Row(sku="s", price=0.0)}
    assert (first.id, first.tags, first.street, first.box, first.kind) == (7, ["a", "b"], None, 9, "PAID")
    assert (first.note, int(first.big), first.before) == ("hi", 2**64 - 1, '{"id": "6"}')
    assert second == Row(
        id=0, tags=[], lines={}, street=None, box=None, kind="NEW", at=None, note=None, big=0, before=None
    )


def test_protobuf_uses_field_numbers_and_the_message_that_was_written(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    newer = PROTO.replace("repeated string tags = 2;", "repeated string labels = 2; bool gift = 11;")
    registry_node.create(topic)
    registry_node.produce(topic, [order_class()(id=1, tags=["a"])], PROTO, "PROTOBUF")
    registry_node.produce(topic, [order_class(newer)(id=2, labels=["b"], gift=True)], newer, "PROTOBUF")
    registry_node.produce(topic, [order_class(PROTO, 1)(sku="s")], PROTO, "PROTOBUF")
    frame = registry_node.read(spark, topic, valueFormat="auto", valueSchemaVersion="1")
    found = told(frame)
    assert [(row.id, row.tags) for row in found[:2]] == [(1, ["a"]), (2, ["b"])]
    assert found[2] is None
    assert frame.where("offset = 2").first()["_corrupt_reason"] == "value: it is a shop.Line, not a shop.Order"  # type: ignore[index]
    lines = registry_node.read(spark, topic, valueFormat="protobuf", valueMessage="shop.Line", mode="DROPMALFORMED")
    assert told(lines) == [Row(sku="s", price=0.0)]


JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "either": {"oneOf": [{"type": "string"}, {"type": "object"}]},
        "parent": {"$ref": "#"},
    },
}


def test_json_objects_are_structs_and_untyped_values_are_text(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    value = {
        "id": 1,
        "price": 2.5,
        "paid": True,
        "note": None,
        "lines": [{"sku": "ü", "more": 1}],
        "counts": {"a": 1},
        "either": {"x": [1]},
        "parent": {"id": 2},
    }
    registry_node.create(topic)
    registry_node.produce(topic, [value, {}], JSON, "JSON")
    first, second = told(registry_node.read(spark, topic, valueFormat="json"))
    assert first.asDict() == value | {
        "lines": [Row(sku="ü")],
        "either": '{"x":[1]}',
        "parent": '{"id":2}',
    }
    assert set(second) == {None}


def test_json_that_is_not_of_its_schema_is_bad(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1}], JSON, "JSON")
    id_ = registry_node.client.latest(f"{topic}-value").id
    prefix = b"\0" + id_.to_bytes(4, "big")
    registry_node.produce(topic, [prefix + b'{"lines":[{"sku":7}]}', prefix + b'{"id":1} x'])
    frame = registry_node.read(spark, topic, valueFormat="auto")
    assert told(frame)[1:] == [None, None]
    assert [row["_corrupt_reason"] for row in frame.orderBy("offset").collect()[1:]] == [
        "value: at lines.sku: a number where a string is expected",
        "value: something follows the JSON value",
    ]


def test_a_format_that_is_not_the_subjects_is_refused(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    registry_node.create(topic)
    registry_node.client.register(f"{topic}-value", json.dumps(JSON), "JSON")
    with pytest.raises(PySparkException, match=r"valueFormat does not fit: version 1 of .* is JSON"):
        registry_node.read(spark, topic, valueFormat="avro")
