"""Typed columns through the schema registry: which schema a write takes, and what it writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

import cordwood.testing
from cordwood.registry import Deserializer, RegistryClient
from cordwood.registry.schemas.schema import AVRO, JSON, PROTOBUF
from cordwood.testing.embedded import EmbeddedNode
from tests.spark.sink_topics import committed, create

ORDERS = "id long not null, customer struct<name: string, vip: boolean>, items array<string>, paid double"
ROWS = [(1, ("Ada", True), ["pen", "ink"], 2.5), (2, None, None, None), (3, ("Bob", None), [], 0.0)]
INCOMPATIBLE = "is not compatible with subject"


@pytest.fixture(scope="module")
def registered() -> Iterator[EmbeddedNode]:
    """A node with a registry."""
    with cordwood.testing.node(registry=True) as node:
        yield node


@pytest.fixture
def client(registered: EmbeddedNode) -> RegistryClient:
    assert registered.registry_url is not None
    return RegistryClient(registered.registry_url)


@pytest.fixture
def target(registered: EmbeddedNode, topic: str) -> str:
    create(registered.bootstrap, topic, partitions=1)
    return topic


def writer(rows: DataFrame, node: EmbeddedNode, topic: str, **options: str) -> DataFrameWriter:
    assert node.registry_url is not None
    return (
        rows.write.format("cordwood")
        .mode("append")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("topic", topic)
        .option("registry", node.registry_url)
        .options(**options)
    )


def read(node: EmbeddedNode, topic: str, client: RegistryClient) -> list[Any]:
    deserializer = Deserializer(client)
    records = committed(node.bootstrap, topic, partitions=1)
    return [None if record.value is None else deserializer(record.value) for record in records]


def orders(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, ORDERS).coalesce(1)


def test_avro_rows_are_written_by_a_schema_derived_from_the_columns(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    writer(orders(spark), registered, target, valueFormat="avro").save()
    assert read(registered, target, client) == [
        {"id": 1, "customer": {"name": "Ada", "vip": True}, "items": ["pen", "ink"], "paid": 2.5},
        {"id": 2, "customer": None, "items": None, "paid": None},
        {"id": 3, "customer": {"name": "Bob", "vip": None}, "items": [], "paid": 0.0},
    ]
    latest = client.latest(f"{target}-value")
    assert latest.version == 1
    assert latest.schema.type == AVRO


def test_protobuf_rows_are_written_by_a_schema_derived_from_the_columns(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    writer(orders(spark), registered, target, valueFormat="protobuf", valueRecordName="Order").save()
    first, second, third = read(registered, target, client)
    assert (first.id, first.customer.name, list(first.items), first.paid) == (1, "Ada", ["pen", "ink"], 2.5)
    assert (second.HasField("customer"), second.HasField("paid")) == (False, False)
    assert (third.customer.name, third.customer.HasField("vip"), third.HasField("paid")) == ("Bob", False, True)
    assert client.latest(f"{target}-value").schema.type == PROTOBUF
    assert first.DESCRIPTOR.name == "Order"


def test_json_rows_are_written_by_a_schema_derived_from_the_columns(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    writer(orders(spark), registered, target, valueFormat="json").save()
    assert read(registered, target, client)[:2] == [
        {"id": 1, "customer": {"name": "Ada", "vip": True}, "items": ["pen", "ink"], "paid": 2.5},
        {"id": 2},
    ]
    assert client.latest(f"{target}-value").schema.type == JSON


def test_key_and_value_have_their_own_schemas_and_a_null_value_is_a_tombstone(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    rows = spark.createDataFrame(
        [((1,), ("a",)), ((2,), None)], "key struct<id: int>, value struct<name: string>"
    ).coalesce(1)
    writer(rows, registered, target, keyFormat="avro", valueFormat="avro").save()
    records = committed(registered.bootstrap, target, partitions=1)
    deserializer = Deserializer(client)
    assert [deserializer(record.key) for record in records] == [{"id": 1}, {"id": 2}]
    assert read(registered, target, client) == [{"name": "a"}, None]


def test_a_subjects_latest_schema_is_taken_if_the_columns_fit_it(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "source", "type": "string", "default": "web"},
    ]
    client.register(f"{target}-value", json.dumps({"type": "record", "name": "shop.Order", "fields": fields}))
    rows = spark.createDataFrame([(1, "NEW")], "id int, state string")
    writer(rows, registered, target, valueFormat="avro").save()
    assert read(registered, target, client) == [{"id": 1, "state": "NEW", "source": "web"}]
    assert client.latest(f"{target}-value").version == 1


def test_new_columns_make_a_new_version_of_the_subject(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    writer(orders(spark), registered, target, valueFormat="avro").save()
    more = orders(spark).selectExpr("*", "true as gift")
    writer(more, registered, target, valueFormat="avro").save()
    writer(more.select("id", "gift"), registered, target, valueFormat="avro").save()
    assert client.ask("GET", f"/subjects/{target}-value/versions") == [1, 2]
    assert read(registered, target, client)[-1] == {
        "id": 3,
        "gift": True,
        "customer": None,
        "items": None,
        "paid": None,
    }


def test_an_incompatible_schema_fails_before_any_row_is_written(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    writer(orders(spark), registered, target, valueFormat="avro").save()
    other = orders(spark).selectExpr("id", "'text' as paid")
    with pytest.raises(PySparkException, match=INCOMPATIBLE):
        writer(other, registered, target, valueFormat="avro").save()
    assert len(read(registered, target, client)) == len(ROWS)


def test_latest_needs_a_subject_and_columns_that_fit(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    with pytest.raises(PySparkException, match=f"the registry has no subject {target}-value"):
        writer(orders(spark), registered, target, valueFormat="avro", valueSchema="latest").save()
    client.register(f"{target}-value", '{"type":"record","name":"O","fields":[{"name":"id","type":"int"}]}')
    with pytest.raises(PySparkException, match=r"value\.id is of type int64, and its schema has int there"):
        writer(orders(spark).select("id"), registered, target, valueFormat="avro", valueSchema="latest").save()
    fitting = orders(spark).selectExpr("cast(id as int) as id")
    writer(fitting, registered, target, valueFormat="avro", valueSchema="latest").save()
    assert read(registered, target, client) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_row_without_a_place_in_the_schema_fails_the_job_and_nothing_of_it_is_visible(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient
) -> None:
    schema = '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},{"name":"paid","type":"double"}]}'
    with pytest.raises(PySparkException, match=r"value\.paid is null, and its schema does not allow that"):
        writer(orders(spark).select("id", "paid"), registered, target, valueFormat="avro", valueSchema=schema).save()
    assert read(registered, target, client) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "xml"}, "valueFormat is 'xml'; expected avro or json or protobuf"),
        ({"valueSchema": "latest"}, "valueSchema is for a column that is written by a schema; set valueFormat"),
        ({"valueFormat": "avro", "valueSchema": "{"}, "schema"),
        ({"keyFormat": "avro", "valueFormat": "avro"}, "there is no column key; keyFormat says how to write it"),
        ({"valueFormat": "avro", "registry": "http://127.0.0.1:9"}, "the schema registry cannot be reached"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(
    spark: SparkSession, registered: EmbeddedNode, target: str, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(PySparkException, match=reason):
        writer(orders(spark), registered, target, **options).save()


def test_a_format_needs_a_registry_and_a_subject(spark: SparkSession, registered: EmbeddedNode, target: str) -> None:
    plain = (
        orders(spark).write.format("cordwood").mode("append").option("kafka.bootstrap.servers", registered.bootstrap)
    )
    with pytest.raises(PySparkException, match="valueFormat needs the option registry"):
        plain.option("topic", target).option("valueFormat", "avro").save()


def test_a_streaming_query_writes_typed_rows_exactly_once(
    spark: SparkSession, registered: EmbeddedNode, target: str, client: RegistryClient, tmp_path: Path
) -> None:
    assert registered.registry_url is not None
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number, "name": f"n{number}"}))
        query = (
            spark.readStream.schema("id long, name string")
            .json(str(tmp_path / "in"))
            .writeStream.format("cordwood")
            .option("kafka.bootstrap.servers", registered.bootstrap)
            .option("topic", target)
            .option("registry", registered.registry_url)
            .option("valueFormat", "avro")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert read(registered, target, client) == [{"id": number, "name": f"n{number}"} for number in range(3)]
