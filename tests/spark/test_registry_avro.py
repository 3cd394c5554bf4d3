"""Avro values and keys as typed columns: a real Spark, a real node, its registry."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from cordwood import Producer
from cordwood.registry import Serializer
from tests.spark.registry_fixtures import RegistryNode, text_of


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


V1 = record(field("id", "long"), field("user", "string"))
V2 = record(field("id", "long"), field("user", "string"), field("note", ["null", "string"], default=None))
V3 = record(field("id", "long"), field("user", "string"), field("amount", "double", default=1.5))


def told(frame: DataFrame) -> list[Any]:
    return [row["value"] for row in frame.orderBy("offset").select("value").collect()]


def test_values_are_a_struct_beside_the_connectors_columns(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}, {"id": 2, "user": "bob"}, None], V1)
    frame = registry_node.read(spark, topic)
    assert frame.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "_corrupt_value",
        "_corrupt_reason",
    ]
    assert frame.schema["value"].dataType == StructType(
        [StructField("id", LongType(), False), StructField("user", StringType(), False)]
    )
    assert told(frame) == [Row(id=1, user="ann"), Row(id=2, user="bob"), None]
    assert frame.where("value.id = 2").select("value.user", "topic", "offset").collect() == [("bob", topic, 1)]


def test_every_type_of_avro_has_its_column(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    line = record(field("sku", "string"), field("price", "float"), name="Line")
    schema = record(
        field("yes", "boolean"),
        field("count", "int"),
        field("raw", "bytes"),
        field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
        field("code", {"type": "fixed", "name": "Code", "size": 3}),
        field("lines", {"type": "array", "items": line}),
        field("tags", {"type": "map", "values": ["null", "long"]}),
        field("maybe", ["null", "shop.Line"]),
        field("either", ["string", "shop.Line", "null"]),
        field("number", ["int", "long"]),
        field("day", {"type": "int", "logicalType": "date"}),
        field("clock", {"type": "int", "logicalType": "time-millis"}),
        field("clock_us", {"type": "long", "logicalType": "time-micros"}),
        field("at", {"type": "long", "logicalType": "timestamp-millis"}),
        field("at_us", {"type": "long", "logicalType": "timestamp-micros"}),
        field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        field("price", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}),
        field("uuid", {"type": "string", "logicalType": "uuid"}),
        field("length", {"type": "fixed", "name": "Length", "size": 12, "logicalType": "duration"}),
    )
    instant = datetime.datetime(2024, 2, 29, 12, 30, 0, 250_000, tzinfo=datetime.UTC)
    value = {
        "yes": True,
        "count": -5,
        "raw": b"\x00\xff",
        "kind": "B",
        "code": b"abc",
        "lines": [{"sku": "a", "price": 0.5}, {"sku": "ü", "price": 2.0}],
        "tags": {"x": 1, "y": None},
        "maybe": None,
        "either": {"sku": "b", "price": 1.0},
        "number": 2**40,
        "day": datetime.date(2024, 2, 29),
        "clock": datetime.time(1, 2, 3),
        "clock_us": datetime.time(1, 2, 3, 4),
        "at": instant,
        "at_us": instant,
        "local": instant.replace(tzinfo=None),
        "price": Decimal("-12345678901234567890.1234"),
        "uuid": "0b5e1a52-7a52-4cf4-9d2f-0f7a3ce9d7f1",
        "length": b"\x01\0\0\0\x02\0\0\0\x03\0\0\0",
    }
    registry_node.create(topic)
    registry_node.produce(topic, [value], schema)
    (found,) = told(registry_node.read(spark, topic))
    local = {name: found[name] for name in ("at", "at_us")}
    assert {name: each.astimezone(datetime.UTC) for name, each in local.items()} == {"at": instant, "at_us": instant}
    expected = value | {
        "raw": bytearray(b"\x00\xff"),
        "code": bytearray(b"abc"),
        "lines": [Row(sku="a", price=0.5), Row(sku="ü", price=2.0)],
        "either": Row(member0=None, member1=Row(sku="b", price=1.0)),
        "length": Row(months=1, days=2, milliseconds=3),
    }
    for name in expected.keys() - local.keys():
        assert found[name] == expected[name], name


def test_older_and_newer_writers_are_resolved_to_the_latest_schema(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}], V1)
    registry_node.produce(topic, [{"id": 2, "user": "bob", "note": "hi"}], V2)
    registry_node.produce(topic, [{"id": 3, "user": "eve", "amount": 9.0}], V3)
    assert told(registry_node.read(spark, topic)) == [
        Row(id=1, user="ann", amount=1.5),
        Row(id=2, user="bob", amount=1.5),
        Row(id=3, user="eve", amount=9.0),
    ]
    assert told(registry_node.read(spark, topic, valueSchemaVersion="2"))[1:] == [
        Row(id=2, user="bob", note="hi"),
        Row(id=3, user="eve", note=None),
    ]
    reader = text_of(record(field("user", "string")))
    assert told(registry_node.read(spark, topic, valueReaderSchema=reader))[0] == Row(user="ann")


def test_a_header_may_name_the_schema(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}], V1)
    registry_node.produce(topic, [{"id": 2, "user": "bob", "note": "hi"}], V2, use_headers=True)
    registry_node.produce(topic, [{"id": 3, "user": "eve"}], V1, use_headers=True)
    found = told(registry_node.read(spark, topic))
    assert found == [
        Row(id=1, user="ann", note=None),
        Row(id=2, user="bob", note="hi"),
        Row(id=3, user="eve", note=None),
    ]


def test_keys_are_typed_too(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    keys = Serializer(registry_node.client, '"int"')
    values = Serializer(registry_node.client, text_of(V1))
    with Producer(bootstrap_servers=registry_node.bootstrap, key_serializer=keys, value_serializer=values) as producer:
        producer.send(topic, {"id": 1, "user": "ann"}, key=7)
    frame = registry_node.read(spark, topic, keyFormat="auto", valueFormat="auto")
    assert frame.schema["key"].dataType == IntegerType()
    assert [(row.key, row.value.id) for row in frame.collect()] == [(7, 1)]


def bad_topic(registry_node: RegistryNode, topic: str) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}], V1)
    id_ = registry_node.client.latest(f"{topic}-value").id
    registry_node.produce(topic, [b"no frame", b"\0\x7f\xff\xff\xffxx", b"\0" + id_.to_bytes(4, "big") + b"\x02\x08ab"])
    registry_node.produce(topic, [{"id": 2, "user": "bob"}], V1)


def test_permissive_keeps_the_bytes_and_the_reason(
    spark: SparkSession, registry_node: RegistryNode, topic: str
) -> None:
    bad_topic(registry_node, topic)
    frame = registry_node.read(spark, topic)
    assert told(frame) == [Row(id=1, user="ann"), None, None, None, Row(id=2, user="bob")]
    rows = frame.orderBy("offset").select("_corrupt_value", "_corrupt_reason").collect()
    assert rows[0] == (None, None)
    assert rows[1] == (b"no frame", "value: the record does not begin with a schema id")
    assert "its schema is not in the registry" in rows[2]["_corrupt_reason"]
    assert rows[3]["_corrupt_reason"] == "value: at user: 4 bytes are declared where 2 are left"
    assert rows[4] == (None, None)


def test_dropmalformed_skips_bad_records(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    bad_topic(registry_node, topic)
    frame = registry_node.read(spark, topic, mode="DROPMALFORMED")
    assert "_corrupt_value" not in frame.columns
    assert [(row.offset, row.value.id) for row in frame.orderBy("offset").collect()] == [(0, 1), (4, 2)]


def test_failfast_names_the_first_bad_record(spark: SparkSession, registry_node: RegistryNode, topic: str) -> None:
    bad_topic(registry_node, topic)
    with pytest.raises(PySparkException, match="the value at offset 1 cannot be decoded: the record does not begin"):
        registry_node.read(spark, topic, mode="FAILFAST").collect()


# ---- streams


def run_stream(spark: SparkSession, options: dict[str, str], folder: Path, columns: str = "*") -> list[Any]:
    """One run over all there is; the rows of the values."""
    found: list[Any] = []

    def see(frame: DataFrame, batch: int) -> None:
        found.extend(frame.orderBy("offset").select("value.*").collect())

    stream = spark.readStream.format("cordwood").options(startingOffsets="earliest", **options).load()
    query = stream.writeStream.foreachBatch(see).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query.start().awaitTermination()
    return found


def test_a_restarted_query_keeps_the_schema_of_its_checkpoint(
    spark: SparkSession, registry_node: RegistryNode, topic: str, tmp_path: Path
) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}], V1)
    options = registry_node.options(topic, checkpointLocation=str(tmp_path / "checkpoint"))
    assert run_stream(spark, options, tmp_path / "checkpoint") == [Row(id=1, user="ann")]
    registry_node.produce(topic, [{"id": 2, "user": "bob", "note": "hi"}], V2)
    assert run_stream(spark, options, tmp_path / "checkpoint") == [Row(id=2, user="bob")]
    # Another query begins with the latest schema.
    fresh = registry_node.options(topic, checkpointLocation=str(tmp_path / "other"))
    assert run_stream(spark, fresh, tmp_path / "other")[1] == Row(id=2, user="bob", note="hi")


def test_without_its_checkpoint_a_source_whose_schema_has_changed_says_what_to_set(
    spark: SparkSession, registry_node: RegistryNode, topic: str, tmp_path: Path
) -> None:
    registry_node.create(topic)
    registry_node.produce(topic, [{"id": 1, "user": "ann"}], V1)
    options = registry_node.options(topic)
    run_stream(spark, options, tmp_path)
    assert run_stream(spark, options, tmp_path) == []
    registry_node.produce(topic, [{"id": 2, "user": "bob", "note": None}], V2)
    with pytest.raises(PySparkException, match="set the source's option checkpointLocation"):
        run_stream(spark, options, tmp_path)
    assert run_stream(spark, options | {"valueSchemaVersion": "1"}, tmp_path) == [Row(id=2, user="bob")]
