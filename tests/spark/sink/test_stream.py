"""Streaming writes: every row once, whoever is killed in one life of the query, after the next."""

import json
import os
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from cordwood.spark.sink.ledger import PARTITIONS
from cordwood.spark.sink.ledger_entry import LedgerEntry
from cordwood.spark.sink.names import DEFAULT_LEDGER_TOPIC
from cordwood.spark.sink.points import Point
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.sink_topics import committed, create, names, values

FILES = 3
ROWS_PER_FILE = 4
ALL = sorted(str(number) for number in range(FILES * ROWS_PER_FILE))


class Query:
    """From text files into a topic; a batch for each file, and two tasks in each."""

    def __init__(self, spark: SparkSession, node: NodeProcess, topic: str, folder: Path) -> None:
        self.spark = spark
        self.node = node
        self.topic = topic
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        (folder / "in").mkdir()
        create(node.bootstrap, topic)

    def add_files(self, first: int = 0, count: int = FILES) -> None:
        for number in range(first, first + count):
            rows = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
            file = self.folder / "in" / f"{number}.txt"
            file.write_text("".join(f"{row}\n" for row in rows))
            # Spark takes the oldest first.
            os.utime(file, (number, number))

    def rows(self) -> DataFrame:
        # Two tasks that both have rows: they are dealt out in turn.
        return self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.folder / "in")).repartition(2)

    def run(self, rows: DataFrame | None = None, mode: str = "append", at: str | None = None, **options: str) -> None:
        """One life: until all files are read, or something fails."""
        query = (
            (self.rows() if rows is None else rows)
            .writeStream.format("cordwood")
            .outputMode(mode)
            .option("kafka.bootstrap.servers", self.node.bootstrap)
            .option("topic", self.topic)
            .option("checkpointLocation", str(self.checkpoint))
            .options(**options, **({} if at is None else {"testing.at": at}))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    @property
    def id(self) -> str:
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])

    def values(self) -> list[str]:
        return values(self.node.bootstrap, self.topic)

    def open(self) -> set[str]:
        return {name for name in names(self.node.bootstrap, "Ongoing") if self.id in name}

    def entries(self) -> list[LedgerEntry]:
        return [
            LedgerEntry.decode(record.value)
            for record in committed(self.node.bootstrap, DEFAULT_LEDGER_TOPIC, PARTITIONS)
            if record.key == self.id.encode()
        ]


@pytest.fixture
def query(spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path) -> Query:
    return Query(spark, node, topic, tmp_path)


def test_every_batch_is_decided_in_the_ledger_and_visible(query: Query) -> None:
    query.add_files()
    query.run()
    assert query.values() == ALL
    assert [entry.batch for entry in query.entries()] == [0, 1, 2]
    assert {len(entry.transactions) for entry in query.entries()} == {2}
    assert query.open() == set()


def test_a_query_resumes_at_its_position(query: Query) -> None:
    query.add_files(0, 2)
    query.run()
    query.add_files(2, 1)
    query.run()
    assert query.values() == ALL
    assert [entry.batch for entry in query.entries()] == [0, 1, 2]
    assert len({entry.run for entry in query.entries()}) == 2


@pytest.mark.parametrize("point", [point.value for point in Point])
def test_a_process_that_is_killed_leaves_every_row_once(query: Query, tmp_path: Path, point: str) -> None:
    query.add_files()
    with pytest.raises(StreamingQueryException):
        query.run(at=f"{point}@1=kill:{tmp_path / 'reached'}")
    assert (tmp_path / "reached").exists()
    if point != Point.BETWEEN_ENDS.value:
        # Whole batches or nothing of them. Between two ends it is a part, until the query continues.
        assert len(query.values()) in (ROWS_PER_FILE, 2 * ROWS_PER_FILE)
    query.run()
    assert query.values() == ALL
    assert query.open() == set()


def test_a_batch_that_spark_replays_after_it_was_decided_writes_nothing(query: Query) -> None:
    query.add_files()
    query.run()
    used = names(query.node.bootstrap)
    # As if the driver had died just before it wrote its checkpoint.
    (query.checkpoint / "commits" / "2").unlink()
    (query.checkpoint / "commits" / ".2.crc").unlink()
    query.run()
    assert query.values() == ALL
    assert [entry.batch for entry in query.entries()] == [0, 1, 2]
    assert names(query.node.bootstrap) == used


def test_a_batch_whose_task_fails_is_invisible_until_it_is_replayed(query: Query) -> None:
    query.add_files()
    with pytest.raises(StreamingQueryException, match="five"):
        query.run(query.rows().selectExpr("if(value = '5', raise_error('five'), value) as value"))
    assert query.values() == sorted(str(number) for number in range(ROWS_PER_FILE))
    query.run()
    assert query.values() == ALL


def test_processes_use_their_names_again_in_later_batches(query: Query) -> None:
    query.add_files(0, 8)
    query.run()
    tasks = {transaction.transactional_id for entry in query.entries() for transaction in entry.transactions}
    # A process that has both tasks of a batch needs two names; there are as many as it ever had at once.
    assert len(query.entries()) == 8
    assert len(tasks) <= 4


def test_at_least_once_needs_no_transactions_and_no_ledger(query: Query) -> None:
    query.add_files()
    query.run(guarantee="at-least-once")
    assert query.values() == ALL
    assert not any(query.id in name for name in names(query.node.bootstrap))


def test_output_mode_complete_appends_all_rows_of_each_batch(query: Query) -> None:
    query.add_files(0, 2)
    counts = query.rows().groupBy().count().selectExpr("cast(count as string) as value")
    query.run(counts, mode="complete")
    assert query.values() == ["4", "8"]


def test_an_unknown_option_is_reported_in_one_sentence(query: Query) -> None:
    query.add_files(0, 1)
    # Spark makes the names of options small.
    with pytest.raises(StreamingQueryException, match="no option ledgertopik for a streaming write; did you mean"):
        query.run(ledgerTopik="x")


def test_the_ledger_can_be_renamed(query: Query) -> None:
    query.add_files(0, 1)
    query.run(ledgerTopic=f"{query.topic}-ledger")
    records = committed(query.node.bootstrap, f"{query.topic}-ledger", PARTITIONS)
    assert [record.key for record in records] == [query.id.encode()]
