"""Records that are damaged in any way, in the three modes: readers as Spark's tasks call them, a real node."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from pyspark.sql.types import StructType

from cordwood.registry import Serializer
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import message_class
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.batch_reader import BatchReader
from cordwood.spark.source.options import batch_options
from cordwood.spark.source.pinned_schemas import pin
from cordwood.spark.source.table import default_schema
from tests.spark.registry_fixtures import RegistryNode
from tests.spark.source_reading import rows

RECORDS = 200
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
    ],
}
PROTOBUF = """syntax = "proto3";
message Order { int64 id = 1; optional string note = 2; repeated Line lines = 3; }
message Line { map<string, double> prices = 1; }"""
JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}},
    },
}


def order(number: int, schema_type: str) -> Any:
    prices: list[Any] = [{"pen": number / 4, "ink": 2.5}, {}]
    if schema_type == "PROTOBUF":
        schema = parse_schema("PROTOBUF", PROTOBUF)
        assert isinstance(schema, ProtobufSchema)
        return message_class(schema, (0,))(
            id=number, note=f"order {number}", lines=[{"prices": each} for each in prices]
        )
    return {"id": number, "note": f"order {number}", "lines": prices}


def damaged(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(0, 2)):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(3):
            case 0:
                changed[place : place + 1] = chance.randbytes(1)
            case 1:
                del changed[place:]
            case 2:
                changed[place:place] = chance.randbytes(3)
    return bytes(changed)


def read(given: dict[str, str], mode: str) -> list[dict[str, Any]]:
    options = batch_options(given | {"mode": mode})
    assert options.registry is not None
    pins = pin(options.registry, options.topics)
    schema = default_schema(options, pins)
    assert isinstance(schema, StructType)
    return rows(BatchReader(options, schema, pins))


@pytest.mark.parametrize(("schema_type", "schema"), [("AVRO", AVRO), ("PROTOBUF", PROTOBUF), ("JSON", JSON)])
@pytest.mark.parametrize("seed", range(3))
def test_modes_agree_on_which_records_are_bad(
    registry_node: RegistryNode, topic: str, schema_type: str, schema: Any, seed: int
) -> None:
    chance = Random(seed)
    text = schema if isinstance(schema, str) else json.dumps(schema)
    serializer = Serializer(registry_node.client, text, schema_type, subject=f"{topic}-value")
    good = [serializer(order(number, schema_type)) for number in range(RECORDS)]
    written = [damaged(each, chance) for each in good]
    registry_node.create(topic)
    registry_node.produce(topic, written)
    given = registry_node.options(topic, valueFormat="auto")
    permissive = read(given, "PERMISSIVE")
    assert [row["offset"] for row in permissive] == list(range(RECORDS))
    bad = {row["offset"] for row in permissive if row["_corrupt_reason"] is not None}
    assert 0 < len(bad) < RECORDS
    for row in permissive:
        if row["offset"] in bad:
            assert (row["value"], row["_corrupt_value"]) == (None, written[row["offset"]])
            assert row["_corrupt_reason"].startswith("value: ")
        else:
            assert row["value"] is not None
            assert row["_corrupt_value"] is None
        if written[row["offset"]] == good[row["offset"]]:
            assert row["value"]["id"] == row["offset"]
    dropped = read(given, "DROPMALFORMED")
    kept = {row["offset"]: row for row in permissive if row["offset"] not in bad}
    assert [repr(row["value"]) for row in dropped] == [repr(row["value"]) for row in kept.values()]
    assert [row["offset"] for row in dropped] == list(kept)
    with pytest.raises(CannotRead, match=f"the value at offset {min(bad)} cannot be decoded: "):
        read(given, "FAILFAST")
