"""Pipelines run: their queries are watched and stopped, and failures are reported."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cordwood.spark.pipelines.figures import QueryFigures
from cordwood.spark.pipelines.outages import Outages
from cordwood.spark.pipelines.running import PipelineFailed, Watched, run_pipeline
from tests.foreign_clients.kafka_client import eventually
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.pipeline_process import run_until_sales, write_first_pipeline
from tests.spark.running_pipeline import running
from tests.spark.topic_records import Sent, consumed, produce, topics

UNHEARD = Watched()
"""Spark's processes were started before, and report nothing."""


class Watcher:
    """A display that remembers what it was shown last, and may do something when it is shown something."""

    def __init__(self, then: Callable[[Sequence[QueryFigures]], None] = lambda _: None) -> None:
        self.last: Sequence[QueryFigures] = ()
        self._then = then

    def show(self, queries: Sequence[QueryFigures], outages: Outages) -> None:
        self.last = list(queries)
        self._then(queries)


def copying(spark: SparkSession, node: NodeProcess, source: str, target: str, checkpoint: Path) -> Any:
    return (
        spark.readStream.format("cordwood")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.queryName("copy")
        .format("cordwood")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
    )


def test_a_pipeline_ends_when_its_queries_have(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    source, target = topics(node, topic, "from", "to")
    produce(node, source, [Sent(b"1"), Sent(b"2"), Sent(b"3")])

    def pipeline(spark: SparkSession) -> StreamingQuery:
        query: StreamingQuery = copying(spark, node, source, target, tmp_path).trigger(availableNow=True).start()
        return query

    watcher = Watcher()
    run_pipeline(pipeline, spark, {}, watcher, UNHEARD)
    (figures,) = watcher.last
    assert (figures.name, figures.status, figures.rows_in, figures.rows_out, figures.lag) == ("copy", "ended", 3, 3, 0)
    assert [record.value for record in consumed(node, target)] == [b"1", b"2", b"3"]


def test_ctrl_c_stops_the_queries_and_is_not_a_failure(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    source, target = topics(node, topic, "from", "to")
    produce(node, source, [Sent(b"1")])
    started: list[StreamingQuery] = []

    def pipeline(spark: SparkSession) -> list[StreamingQuery]:
        started.append(copying(spark, node, source, target, tmp_path).start())
        return started

    def interrupt(queries: Sequence[QueryFigures]) -> None:
        if queries[0].batches and queries[0].status == "running":
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    run_pipeline(pipeline, spark, {}, Watcher(interrupt), UNHEARD)
    assert not started[0].isActive
    assert signal.getsignal(signal.SIGINT) is handler


def test_failures_during_a_requested_stop_are_ignored(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    """Processes of Spark get a Ctrl-C, too, and their reactions vary."""
    (target,) = topics(node, topic, "to")
    started: list[StreamingQuery] = []

    def pipeline(spark: SparkSession) -> list[StreamingQuery]:
        started.append(copying(spark, node, "nowhere", target, tmp_path).start())
        return started

    def interrupt(queries: Sequence[QueryFigures]) -> None:
        if started[0].isActive:
            os.kill(os.getpid(), signal.SIGINT)
            eventually(lambda: not started[0].isActive)

    watcher = Watcher(interrupt)
    run_pipeline(pipeline, spark, {}, watcher, UNHEARD)
    assert started[0].exception() is not None
    assert [figures.status for figures in watcher.last] == ["ended"]


def test_a_failing_query_stops_the_others_with_a_one_sentence_error(
    spark: SparkSession, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    source, target = topics(node, topic, "from", "to")
    started: list[StreamingQuery] = []

    def pipeline(spark: SparkSession) -> list[StreamingQuery]:
        good = copying(spark, node, source, target, tmp_path / "good").start()
        bad = copying(spark, node, "nowhere", target, tmp_path / "bad").queryName("bad").start()
        started.extend([good, bad])
        return started

    with pytest.raises(PipelineFailed) as failure:
        run_pipeline(pipeline, spark, {}, Watcher(), UNHEARD)
    assert str(failure.value).startswith("bad: topic nowhere does not exist or cannot be read")
    assert not any(query.isActive for query in started)


def test_a_pipeline_that_cannot_be_planned_is_reported_in_one_sentence(spark: SparkSession) -> None:
    def pipeline(spark: SparkSession) -> None:
        spark.range(1).select("nothing").collect()

    with pytest.raises(PipelineFailed) as failure:
        run_pipeline(pipeline, spark, {}, Watcher(), UNHEARD)
    assert "`nothing` cannot be resolved" in str(failure.value)
    assert "\n" not in str(failure.value)


_COUNTING = """
import sys

def pipeline(spark):
    print("counting", file=sys.stderr, flush=True)
    spark.range(10**15).selectExpr("sum(id * id % 7)").collect()
"""


def test_ctrl_c_before_there_is_a_query_prints_nothing(tmp_path: Path) -> None:
    with running(tmp_path, _COUNTING, "127.0.0.1:1") as pipeline:
        pipeline.until_said("counting")
        assert pipeline.interrupt() == 128 + signal.SIGINT
    # Py4J would log a traceback for the interrupted call.
    assert pipeline.said.endswith("counting\n"), pipeline.said


_INTERRUPTED_AFTER_JAVA = """
import sys

def pipeline(spark):
    print("counting", file=sys.stderr, flush=True)
    java = spark.sparkContext._gateway.proc
    java.kill()
    java.wait()
    raise KeyboardInterrupt
"""


def test_ctrl_c_prints_nothing_when_java_ends_before_python(tmp_path: Path) -> None:
    with running(tmp_path, _INTERRUPTED_AFTER_JAVA, "127.0.0.1:1") as pipeline:
        assert pipeline.exit_code() == 128 + signal.SIGINT
    assert pipeline.said.endswith("counting\n"), pipeline.said


def test_the_first_pipeline_runs_as_it_is_without_java_until_ctrl_c(node: NodeProcess, tmp_path: Path) -> None:
    own = ("JAVA", "SPARK", "PYSPARK")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment["PATH"] = path_without_java(tmp_path / "bin")
    environment.pop("CORDWOOD_BOOTSTRAP", None)
    # Where the brokers are is written into the file.
    write_first_pipeline(tmp_path, environment | {"CORDWOOD_BOOTSTRAP": node.bootstrap})
    code, said = run_until_sales(tmp_path, environment)
    assert code == 0, said
    assert "Traceback" not in said, said
    assert consumed(node, "orders")


def path_without_java(folder: Path) -> str:
    """All commands that there are, but that one."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for command in Path(directory).glob("*"):
            link = folder / command.name
            if command.name != "java" and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)
