"""Other PySparks than that of these tests, each in its own JVM: what docs/spark.md says of versions.

`CORDWOOD_PYSPARK_PYTHONS` names their interpreters, with colons between them. Each has a PySpark, and what the extra
`spark` needs beside it; Cordwood itself is given to them.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood import Producer
from cordwood.spark.pipelines.failure import sentence
from cordwood.spark.sink.points import Point
from tests.foreign_clients.node_process import NodeProcess
from tests.spark import version_program
from tests.spark.pipeline_process import run_until_sales, write_first_pipeline
from tests.spark.sink_topics import create, names, values
from tests.spark.source_reading import fill
from tests.spark.topic_records import consumed
from tests.spark.version_program import Told

PYTHONS = [python for python in os.environ.get("CORDWOOD_PYSPARK_PYTHONS", "").split(":") if python]
ADMISSION_CONTROL_SINCE = (4, 2)
FILES, LINES = 3, 4

pytestmark = pytest.mark.skipif(
    not PYTHONS, reason="CORDWOOD_PYSPARK_PYTHONS names no interpreters with other PySparks"
)


class OtherSpark:
    """A session of another PySpark, in a separate process."""

    def __init__(self, python: str, stderr: Path) -> None:
        self.python = python
        self._stderr = stderr
        with stderr.open("w") as log:
            self._process = subprocess.Popen(
                [python, version_program.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        self.version = tuple(int(part) for part in self.ask("about")["version"].split(".")[:2])

    def ask(self, work: str, **arguments: Any) -> Told:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"it has ended with {self._process.wait()}: {self._stderr.read_text()}"
        told: Told = json.loads(line)
        return told

    def close(self) -> None:
        self._process.communicate()


def environment() -> dict[str, str]:
    """The environment of an interpreter with its own Spark, and this Cordwood."""
    own = ("PYSPARK", "SPARK", "CORDWOOD_SPARK")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"PYTHONPATH": str(Path(cordwood.__file__).parent.parent)}


@pytest.fixture(scope="session", params=PYTHONS)
def other_spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherSpark]:
    other = OtherSpark(request.param, tmp_path_factory.mktemp("other-spark") / "stderr")
    yield other
    other.close()


@pytest.fixture
def filled(node: NodeProcess, producer: Producer, topic: str) -> str:
    """A topic with v0 to v9 in partition 0, and v10 to v19 in partition 1."""
    create(node.bootstrap, topic, partitions=2)
    fill(producer, topic, 10)
    fill(producer, topic, 10, partition=1, first=10)
    return topic


def reading(node: NodeProcess, topic: str, **options: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": node.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }


def writing(node: NodeProcess, topic: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": node.bootstrap, "topic": topic, **options}


def numbered(*numbers: int) -> list[str]:
    return sorted(f"v{number}" for number in numbers)


def column(rows: list[Told], name: str = "value") -> list[Any]:
    return sorted(row[name] for row in rows)


def test_a_topic_is_read_as_a_table(other_spark: OtherSpark, node: NodeProcess, filled: str) -> None:
    told = other_spark.ask("read", options=reading(node, filled, includeHeaders="true"))
    assert "refused" not in told, told
    assert told["columns"] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    assert column(told["rows"]) == numbered(*range(20))


def test_filters_find_their_rows(other_spark: OtherSpark, node: NodeProcess, filled: str) -> None:
    told = other_spark.ask("read", options=reading(node, filled), where="partition = 1 AND offset >= 7")
    assert "refused" not in told, told
    assert column(told["rows"]) == numbered(17, 18, 19)


def test_json_values_become_columns(other_spark: OtherSpark, node: NodeProcess, producer: Producer, topic: str) -> None:
    create(node.bootstrap, topic, partitions=1)
    producer.send(topic, b'{"id": 1, "name": "one"}')
    producer.send(topic, b'{"id": "no number"}')
    producer.flush()
    told = other_spark.ask(
        "read",
        options=reading(node, topic, valueFormat="json"),
        schema="id BIGINT, name STRING, _offset BIGINT, _corrupt_record STRING",
    )
    assert told.get("rows") == [
        {"id": 1, "name": "one", "_offset": 0, "_corrupt_record": None},
        {"id": None, "name": None, "_offset": 1, "_corrupt_record": '{"id": "no number"}'},
    ], told


@pytest.mark.parametrize(
    "trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}], ids=lambda it: next(iter(it))
)
def test_a_stream_reads_every_row_once(
    other_spark: OtherSpark, node: NodeProcess, filled: str, trigger: dict[str, Any]
) -> None:
    told = other_spark.ask("read_stream", options=reading(node, filled), trigger=trigger)
    assert "refused" not in told, told
    assert column([row for rows in told["batches"] for row in rows]) == numbered(*range(20))


def test_limits_make_small_batches_or_are_refused_with_a_sentence(
    other_spark: OtherSpark, node: NodeProcess, filled: str
) -> None:
    options = reading(node, filled, maxOffsetsPerTrigger="8")
    told = other_spark.ask("read_stream", options=options, trigger={"availableNow": True})
    if other_spark.version >= ADMISSION_CONTROL_SINCE:
        assert [len(rows) for rows in told["batches"]] == [8, 8, 4]
    else:
        assert sentence_of(told) == (
            "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need PySpark 4.2 or newer: "
            "earlier versions do not tell a source where a batch starts"
        )


def test_an_option_not_for_streams_is_reported_in_one_sentence(
    other_spark: OtherSpark, node: NodeProcess, topic: str
) -> None:
    options = reading(node, topic, endingOffsets="latest")
    told = other_spark.ask("read_stream", options=options, trigger={"availableNow": True})
    assert sentence_of(told) == "endingOffsets is for batch reads; a stream has no end"


def test_a_missing_topic_is_reported_in_one_sentence(other_spark: OtherSpark, node: NodeProcess, topic: str) -> None:
    told = other_spark.ask("read", options=reading(node, topic))
    assert sentence_of(told).startswith(f"topic {topic} does not exist or cannot be read")
    assert "Traceback" not in told["refused"]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_rows_of_a_batch_are_written(other_spark: OtherSpark, node: NodeProcess, topic: str, guarantee: str) -> None:
    create(node.bootstrap, topic)
    told = other_spark.ask(
        "write",
        options=writing(node, topic, guarantee=guarantee),
        rows="SELECT cast(id AS string) key, 'v' || id value FROM range(20)",
    )
    assert told == {"written": True}
    assert values(node.bootstrap, topic) == numbered(*range(20))


def test_a_streaming_write_at_least_once_has_every_row(
    other_spark: OtherSpark, node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    create(node.bootstrap, topic)
    told = other_spark.ask(
        "write_stream",
        folder=lines_in_files(tmp_path),
        checkpoint=str(tmp_path / "checkpoint"),
        options=writing(node, topic, guarantee="at-least-once"),
    )
    assert told == {"batches": FILES}
    assert values(node.bootstrap, topic) == numbered(*range(FILES * LINES))


@pytest.mark.parametrize("point", [Point.TASK_WRITTEN, Point.BEFORE_DECISION, Point.AFTER_DECISION, Point.BETWEEN_ENDS])
def test_a_streaming_write_has_every_row_once_after_a_kill_and_a_restart(
    other_spark: OtherSpark, node: NodeProcess, topic: str, tmp_path: Path, point: Point
) -> None:
    create(node.bootstrap, topic)
    places = {"folder": lines_in_files(tmp_path), "checkpoint": str(tmp_path / "checkpoint")}
    trap = {"testing.at": f"{point.value}@1=kill:{tmp_path / 'reached'}"}
    killed = other_spark.ask("write_stream", **places, options=writing(node, topic, **trap))
    assert (tmp_path / "reached").exists(), killed
    assert "refused" in killed
    told = other_spark.ask("write_stream", **places, options=writing(node, topic))
    assert "refused" not in told, told
    assert values(node.bootstrap, topic) == numbered(*range(FILES * LINES))
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert not {name for name in names(node.bootstrap, "Ongoing") if query in name}


def test_the_first_pipeline_runs_as_it_is(other_spark: OtherSpark, node: NodeProcess, tmp_path: Path) -> None:
    chosen = environment() | {"CORDWOOD_BOOTSTRAP": node.bootstrap}
    write_first_pipeline(tmp_path, chosen, other_spark.python)
    code, said = run_until_sales(tmp_path, chosen, other_spark.python)
    assert code == 0, said
    # PySpark's own daemon may have something to say of a pipe that Spark has closed: 4.1 does.
    assert "cordwood/spark" not in said, said
    assert consumed(node, "orders")


def lines_in_files(folder: Path) -> str:
    """v0 to v11, in files of which Spark takes the oldest first."""
    inputs = folder / "in"
    inputs.mkdir()
    for number in range(FILES):
        file = inputs / f"{number}.txt"
        file.write_text("".join(f"v{line}\n" for line in range(number * LINES, (number + 1) * LINES)))
        os.utime(file, (number, number))
    return str(inputs)


def sentence_of(told: Told) -> str:
    """As `cordwood pipeline run` would print it."""
    return sentence(RuntimeError(told["refused"]))
