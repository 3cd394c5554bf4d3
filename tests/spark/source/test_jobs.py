"""The source within Spark: a session, its driver, its Python workers, and a real node."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cordwood import Admin, Producer
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.source_reading import create, fill


def read(spark: SparkSession, node: NodeProcess, topic: str, **options: str) -> DataFrame:
    source = spark.read.format("cordwood").option("kafka.bootstrap.servers", node.bootstrap)
    return source.option("subscribe", topic).options(**options).load()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that pushes filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_job_reads_a_topic_by_the_name_of_the_format(
    spark: SparkSession, node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, 2)
    producer.send(topic, b"v0", key=b"k0", partition=0, timestamp_ms=1_700_000_000_123, headers=[("h", b"1")])
    producer.send(topic, b"v1", partition=1, timestamp_ms=1_700_000_000_124)
    producer.flush()
    table = read(spark, node, topic, includeHeaders="true")
    assert table.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    columns = ("key", "value", "topic", "partition", "offset", "cast(timestamp as string) time", "timestampType")
    first, second = table.selectExpr(*columns, "headers").orderBy("partition").collect()
    assert tuple(first)[:-1] == (b"k0", b"v0", topic, 0, 0, "2023-11-14 22:13:20.123", 0)
    assert first.headers == [Row(key="h", value=b"1")]
    assert tuple(second) == (None, b"v1", topic, 1, 0, "2023-11-14 22:13:20.124", 0, None)


def test_json_values_are_columns_of_a_job(
    spark: SparkSession, node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    for value in (b'{"user":"a","amount":1.5}', b'{"user":"b","amount":2}', b"nonsense", b'{"user":"a","amount":3}'):
        producer.send(topic, value)
    producer.flush()
    table = read(spark, node, topic, valueFormat="json", valueSchema="user STRING, amount DOUBLE", mode="DROPMALFORMED")
    assert table.columns[:4] == ["user", "amount", "_key", "_topic"]
    sums = table.groupBy("user").sum("amount").orderBy("user").collect()
    assert [tuple(row) for row in sums] == [("a", 4.5), ("b", 2.0)]


def test_pushed_filters_narrow_the_plan(
    pushing: SparkSession, node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, 3)
    for partition in range(3):
        fill(producer, topic, 10, partition)
    table = read(pushing, node, topic)
    chosen = table.where("partition = 1 and offset between 2 and 4").select("partition", "offset")
    assert chosen.rdd.getNumPartitions() == 1
    assert [tuple(row) for row in chosen.collect()] == [(1, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"starting": "earliest"}, "there is no option starting for a read; did you mean startingOffsets?"),
        ({"startingTimestamp": "99999999999999"}, "is of 99999999999999 or later"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "cannot connect to 127.0.0.1:1: Connection refused; check"),
    ],
)
def test_read_errors_are_one_sentence_at_planning(
    spark: SparkSession,
    node: NodeProcess,
    admin: Admin,
    producer: Producer,
    topic: str,
    options: dict[str, str],
    said: str,
) -> None:
    create(admin, topic)
    fill(producer, topic, 1)
    with pytest.raises(AnalysisException) as error:
        read(spark, node, topic, **options).collect()
    assert said in str(error.value)
    assert "Traceback" not in str(error.value)
    assert len(str(error.value).strip().splitlines()) <= 2


def test_invalid_stream_options_are_reported_at_the_start(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    stream = spark.readStream.format("cordwood").option("kafka.bootstrap.servers", node.bootstrap)
    rows = stream.option("subscribe", topic).option("endingOffsets", "latest").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match="endingOffsets is for batch reads; a stream has no end"):
        query.awaitTermination()


def test_invalid_stream_options_are_reported_when_resuming_from_a_checkpoint(
    spark: SparkSession, node: NodeProcess, admin: Admin, producer: Producer, topic: str, tmp_path: Path
) -> None:
    create(admin, topic)
    fill(producer, topic, 1)

    def start(**options: str) -> StreamingQuery:
        stream = spark.readStream.format("cordwood").option("kafka.bootstrap.servers", node.bootstrap)
        rows = stream.options(subscribe=topic, startingOffsets="earliest", **options).load()
        return rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()

    query = start()
    query.processAllAvailable()
    query.stop()
    query = start(endingOffsets="latest")
    with pytest.raises(StreamingQueryException, match="endingOffsets is for batch reads; a stream has no end"):
        query.awaitTermination()


def test_a_query_resumes_from_its_checkpoint_and_reads_each_record_once(
    spark: SparkSession, node: NodeProcess, admin: Admin, producer: Producer, topic: str, tmp_path: Path
) -> None:
    create(admin, topic, 2)
    seen: list[tuple[int, list[bytes]]] = []

    def run() -> None:
        source = spark.readStream.format("cordwood").option("kafka.bootstrap.servers", node.bootstrap)
        source = source.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
        query = (
            source.load()
            .writeStream.foreachBatch(
                lambda batch, number: seen.append((number, [row.value for row in batch.select("value").collect()]))
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None

    fill(producer, topic, 15)
    fill(producer, topic, 15, partition=1, first=15)
    run()
    fill(producer, topic, 10, first=30)
    run()
    assert [len(values) for _, values in seen] == [20, 10, 10]
    assert [number for number, _ in seen] == [0, 1, 2]
    assert sorted(value for _, values in seen for value in values) == sorted(b"v%d" % number for number in range(40))
    offsets = (tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1]
    assert offsets == f'{{"{topic}": {{"0": 15, "1": 15}}}}'
