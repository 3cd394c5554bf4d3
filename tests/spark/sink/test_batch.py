"""Batch writes: which rows become which records, what readers see of a job that fails, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from tests.foreign_clients.node_process import NodeProcess
from tests.spark.sink_topics import committed, create, names, values


def writer(rows: DataFrame, node: NodeProcess, **options: str) -> DataFrameWriter:
    return (
        rows.write.format("cordwood")
        .mode("append")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .options(**options)
    )


def numbers(spark: SparkSession, count: int, slices: int = 2) -> DataFrame:
    return spark.range(0, count, 1, slices).selectExpr("cast(id as string) as value")


FAILS_AT_7 = "case when value = '7' then raise_error('seven') else value end as value"


def test_columns_become_a_records_parts(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    rows = spark.sql(
        """
        select 'k' as key, binary('v') as value, 2 as partition,
          array(named_struct('key', 'h', 'value', binary('1')), named_struct('key', 'n', 'value', null)) as headers
        """
    )
    writer(rows, node, topic=topic).save()
    (record,) = committed(node.bootstrap, topic)
    assert (record.key, record.value, record.partition) == (b"k", b"v", 2)
    assert record.headers == (("h", b"1"), ("n", None))


def test_nulls_are_neither_keys_nor_values(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    rows = spark.createDataFrame([(None, "a"), ("k", None)], "key string, value string")
    writer(rows, node, topic=topic).save()
    assert {(record.key, record.value) for record in committed(node.bootstrap, topic)} == {(None, b"a"), (b"k", None)}


def test_the_column_topic_says_where_a_row_goes(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, f"{topic}-0", f"{topic}-1")
    rows = numbers(spark, 10).selectExpr("value", f"concat('{topic}-', cast(value as int) % 2) as topic")
    writer(rows, node).save()
    assert values(node.bootstrap, f"{topic}-0") == ["0", "2", "4", "6", "8"]
    assert values(node.bootstrap, f"{topic}-1") == ["1", "3", "5", "7", "9"]


def test_the_option_topic_goes_before_the_column(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    writer(numbers(spark, 3).selectExpr("value", "'elsewhere' as topic"), node, topic=topic).save()
    assert values(node.bootstrap, topic) == ["0", "1", "2"]


def test_a_null_partition_leaves_the_choice_to_the_key(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    rows = spark.createDataFrame(
        [("same", "a", None), ("same", "b", None), ("same", "c", 0), ("same", "d", 1), ("same", "e", 2)],
        "key string, value string, partition int",
    )
    writer(rows, node, topic=topic).save()
    at = {record.value.decode(): record.partition for record in committed(node.bootstrap, topic)}
    assert at["a"] == at["b"]
    assert (at["c"], at["d"], at["e"]) == (0, 1, 2)


def test_rows_with_one_key_keep_their_order(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    rows = spark.range(0, 30_000, 1, 1).selectExpr("cast(id % 7 as string) as key", "cast(id as string) as value")
    writer(rows, node, topic=topic).save()
    of_key: dict[bytes, list[int]] = {}
    for record in committed(node.bootstrap, topic):
        of_key.setdefault(record.key, []).append(int(record.value))
    assert of_key == {b"%d" % key: list(range(key, 30_000, 7)) for key in range(7)}


def test_nothing_of_a_failed_job_is_visible(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    with pytest.raises(PySparkException, match="seven"):
        writer(numbers(spark, 10, 4).selectExpr(FAILS_AT_7), node, topic=topic).save()
    assert values(node.bootstrap, topic) == []


def test_a_failed_job_leaves_nothing_open(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    before = names(node.bootstrap, "Ongoing")
    # Before the row that fails others have gone out: Spark hands rows over in pieces of 10,000.
    ids = spark.range(0, 50_000, 1, 1)
    rows = ids.selectExpr("if(id = 49999, raise_error('seven'), cast(id as string)) as value")
    with pytest.raises(PySparkException, match="seven"):
        writer(rows, node, topic=topic).save()
    assert names(node.bootstrap, "Ongoing") <= before
    writer(numbers(spark, 1), node, topic=topic).save()
    assert values(node.bootstrap, topic) == ["0"]


@pytest.mark.parametrize("point", ["task-begun", "task-written", "task-left"])
def test_nothing_of_a_job_is_visible_whose_worker_is_killed(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path, point: str
) -> None:
    create(node.bootstrap, topic)
    reached = tmp_path / "reached"
    before = names(node.bootstrap, "Ongoing")
    with pytest.raises((PySparkException, Py4JJavaError)):
        writer(numbers(spark, 10, 1), node, topic=topic, **{"testing.at": f"{point}=kill:{reached}"}).save()
    assert reached.exists()
    assert values(node.bootstrap, topic) == []
    assert names(node.bootstrap, "Ongoing") <= before


def test_at_least_once_needs_no_transactions(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    before = names(node.bootstrap)
    writer(numbers(spark, 10), node, topic=topic, guarantee="at-least-once").save()
    assert values(node.bootstrap, topic) == [str(number) for number in range(10)]
    assert names(node.bootstrap) == before


def test_settings_of_the_client_are_forwarded(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    create(node.bootstrap, topic)
    rows = numbers(spark, 1, 1).selectExpr("repeat('x', 100000) as value")
    writer(rows, node, topic=topic, **{"kafka.compression.type": "zstd", "kafka.max.request.size": "10000"}).save()
    assert values(node.bootstrap, topic) == ["x" * 100_000]


def wrong_rows() -> Iterator[Any]:
    yield pytest.param("select 1 as a", {}, "there is no column value among a", id="no value")
    yield pytest.param(
        "select 1 as value", {}, "the column value is of type int; expected string or binary", id="value"
    )
    yield pytest.param("select 'v' as value, 1 as key", {}, "the column key is of type int", id="key")
    yield pytest.param(
        "select 'v' as value, '1' as partition", {}, "partition is of type string; expected int", id="int"
    )
    yield pytest.param(
        "select 'v' as value, map('a', 'b') as headers", {}, "the column headers is of type", id="headers"
    )
    yield pytest.param(
        "select 'v' as value", {"topic": ""}, "no topic to write to: set the option topic", id="no topic"
    )
    yield pytest.param(
        "select 'v' as value",
        {"topics": "x"},
        "no option topics for a batch write; did you mean topic",
        id="typo",
    )
    yield pytest.param("select 'v' as value", {"guarantee": "maybe"}, "guarantee is 'maybe'; expected", id="guarantee")
    yield pytest.param(
        "select 'v' as value", {"kafka.acks": "1"}, "kafka.acks cannot be set: every write is", id="acks"
    )
    yield pytest.param("select 'v' as value", {"kafka.linger": "1"}, "there is no setting linger", id="client")
    yield pytest.param(
        "select 'v' as value", {"kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1", id="nobody there"
    )
    yield pytest.param("select 'v' as value", {"topic": "a b"}, "a b", id="no such name")
    yield pytest.param(
        "select 'v' as value, cast(null as string) as topic", {"topic": ""}, "a row has no topic", id="null topic"
    )


@pytest.mark.parametrize(("query", "options", "said"), list(wrong_rows()))
def test_write_errors_are_one_sentence(
    spark: SparkSession, node: NodeProcess, topic: str, query: str, options: dict[str, str], said: str
) -> None:
    chosen = {"topic": topic} | options
    if not chosen["topic"]:
        del chosen["topic"]
    with pytest.raises(PySparkException) as raised:
        writer(spark.sql(query), node, **chosen).save()
    assert said in str(raised.value)


def test_a_topic_is_not_overwritten(spark: SparkSession, node: NodeProcess, topic: str) -> None:
    with pytest.raises(PySparkException, match='a topic cannot be overwritten; use mode\\("append"\\)'):
        writer(numbers(spark, 1), node, topic=topic).mode("overwrite").save()
