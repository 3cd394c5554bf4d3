"""Loading a pipeline, counting and showing its progress, and describing its failures."""

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from rich.console import Console
from rich.live import Live

from cordwood.spark.errors import in_option_names
from cordwood.spark.masters import BadMaster, check_master
from cordwood.spark.pipelines.display import Lines, LiveTable
from cordwood.spark.pipelines.failure import sentence
from cordwood.spark.pipelines.figures import QueryFigures
from cordwood.spark.pipelines.outages import Outages
from cordwood.spark.pipelines.pipeline_file import BadPipeline, arguments_of, load_pipeline, show_to_workers
from cordwood.spark.sessions import driver_memory_mb, session_settings


def pipeline(spark: object, bootstrap: str = "127.0.0.1:9092", batch: int = 100, fast: bool = False) -> None:
    return None


def progress(
    second: int,
    *,
    rows: int = 0,
    out: int = -1,
    end: Mapping[str, Any] | str | None = None,
    latest: Mapping[str, Any] | str | None = None,
    did_work: bool = True,
) -> dict[str, Any]:
    """As reported by Spark."""
    return {
        "timestamp": f"2026-01-01T00:00:{second:02d}.000Z",
        "durationMs": {"latestOffset": 3, "triggerExecution": 1500, **({"addBatch": 1400} if did_work else {})},
        "sources": [{"endOffset": end, "latestOffset": latest, "numInputRows": rows}],
        "sink": {"numOutputRows": out},
    }


def test_rows_of_all_batches_are_counted_once() -> None:
    figures = QueryFigures("q")
    batches = [progress(1, rows=10, out=3), progress(2, rows=5, out=0)]
    for told in [*batches, *batches, progress(3, rows=1, out=1)]:
        figures.add(told)
    assert (figures.batches, figures.rows_in, figures.rows_out, figures.batch_ms) == (3, 16, 4, 1500)


def test_a_batch_that_is_waited_for_is_not_counted() -> None:
    figures = QueryFigures("q")
    figures.add(progress(1, rows=10))
    figures.add(progress(2, did_work=False))
    assert figures.batches == 1


def test_lag_counts_records_beyond_the_last_batch() -> None:
    figures = QueryFigures("q")
    figures.add(progress(1, end={"t": {"0": 5, "1": 7}}, latest={"t": {"0": 9, "1": 7}}))
    assert figures.lag == 4


def test_offsets_may_come_as_text() -> None:
    figures = QueryFigures("q")
    figures.add(progress(1, end='{"t": {"0": 5}}', latest='{"t": {"0": 9}}'))
    assert figures.lag == 4


def test_a_source_without_topics_has_no_lag() -> None:
    figures = QueryFigures("q")
    figures.add(progress(1, end={"logOffset": 3}, latest={"logOffset": 4}))
    assert figures.lag is None


def test_a_line_is_printed_when_something_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    figures, lines = QueryFigures("totals"), Lines()
    figures.status = "running"
    figures.add(progress(1, rows=20_000, out=7, end={"t": {"0": 5}}, latest={"t": {"0": 9}}))
    lines.show([figures], Outages())
    lines.show([figures], Outages())
    assert capsys.readouterr().err == "totals: running, 1 batches, 20,000 rows in, 7 out, lag 4, last took 1.5 s\n"


def test_on_a_terminal_a_table_has_a_row_for_each_query() -> None:
    figures = QueryFigures("[totals]")
    figures.add(progress(1, rows=20_000))
    screen = io.StringIO()
    with Live(console=Console(file=screen, force_terminal=True, width=100), auto_refresh=False) as live:
        LiveTable(live).show([figures, QueryFigures("other")], Outages())
    rows = [line.split() for line in screen.getvalue().splitlines()]
    assert ["[totals]", "1", "20,000", "-", "-", "1.5", "s", "starting"] in rows
    assert ["other", "0", "0", "-", "-", "-", "starting"] in rows


def test_values_get_the_type_of_the_default() -> None:
    given = {"batch": "7", "fast": "true"}
    assert arguments_of(pipeline, given, {"bootstrap": "b:1", "other": "x"}) == {
        "bootstrap": "b:1",
        "batch": 7,
        "fast": True,
    }


def test_a_pipelines_own_default_counts_where_nothing_is_said() -> None:
    assert arguments_of(pipeline, {}, {}) == {}


def test_the_default_address_is_used_unless_the_pipeline_or_its_user_sets_one() -> None:
    def without_default(spark: object, bootstrap: str) -> None: ...

    assert arguments_of(without_default, {}, {}) == {"bootstrap": "127.0.0.1:9092"}
    assert arguments_of(without_default, {}, {"bootstrap": "b:1"}) == {"bootstrap": "b:1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bach": "7"}, "pipeline() has no parameter bach; did you mean batch?"),
        ({"x": "7"}, "pipeline() has no parameter x; it has bootstrap, batch, fast"),
        ({"batch": "many"}, "batch is 'many'; expected a number, such as 100"),
        ({"fast": "1"}, "fast is '1'; expected true or false"),
    ],
)
def test_an_invalid_value_is_reported(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadPipeline) as failure:
        arguments_of(pipeline, given, {})
    assert str(failure.value) == said


def test_values_from_python_are_taken_as_they_are() -> None:
    assert arguments_of(pipeline, {"batch": 7, "fast": True}, {}) == {"batch": 7, "fast": True}


def test_a_parameter_without_a_default_needs_a_value() -> None:
    def needy(spark: object, topic: str) -> None:
        return None

    with pytest.raises(BadPipeline, match="needs a value for topic: --set topic=VALUE"):
        arguments_of(needy, {}, {})


def test_definitions_of_the_pipeline_file_reach_workers_without_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "only_here.py"
    file.write_text("NAME = 'here'\ndef pipeline(spark):\n    return NAME\n")
    pickled = cloudpickle.dumps(load_pipeline(file))  # type: ignore[no-untyped-call]
    monkeypatch.delitem(sys.modules, "only_here")
    file.unlink()
    assert cloudpickle.loads(pickled)(None) == "here"


def test_modules_beside_the_pipeline_file_are_found_by_workers(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": "elsewhere"}
    show_to_workers(tmp_path / "orders.py", environment)
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "elsewhere"]


def test_a_file_without_the_function_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "without_function.py"
    file.write_text("x = 1\n")
    with pytest.raises(BadPipeline, match=r"has no function pipeline\(spark\)"):
        load_pipeline(file)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match="there is no file"):
        load_pipeline(tmp_path / "nowhere.py")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
            "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
            "initialOffset: cordwood.spark.errors.CannotRead: topic t does not exist or cannot be read; create it\n"
            " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1-2]",
            "topic t does not exist or cannot be read; create it",
        ),
        (
            "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: [PYTHON_EXCEPTION] An exception "
            'was thrown from the Python worker: Traceback (most recent call last):\n  File "a.py", line 2, in bad\n'
            "ZeroDivisionError: integer division or modulo by zero\n SQLSTATE: 38000 SQLSTATE: XXKST\n"
            "=== Streaming Query ===\n",
            "ZeroDivisionError: integer division or modulo by zero",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amont` cannot be resolved. Did you mean one of "
            "the following? [`amount`]. SQLSTATE: 42703;\n'Project ['amont]\n+- Relation",
            "A column with name `amont` cannot be resolved. Did you mean one of the following? [`amount`].",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "
            "org.apache.spark.SparkException: Could not parse Master URL: 'there'\n\tat org.apache.spark.SparkContext",
            "Could not parse Master URL: 'there'",
        ),
        (
            "Error while instantiating 'org.apache.spark.sql.internal.SessionStateBuilder':\n\nJVM stacktrace:\n"
            "java.lang.IllegalArgumentException: Error while instantiating "
            "'org.apache.spark.sql.internal.SessionStateBuilder':\n\tat org.apache.spark.sql.SparkSession$.x(S.scala)\n"
            "Caused by: org.apache.spark.SparkIllegalArgumentException: [INVALID_CONF_VALUE.TYPE_MISMATCH] The value "
            "'abc' in the config \"spark.sql.shuffle.partitions\" is invalid. SQLSTATE: 22022\n\tat org.apache.x\n"
            "\t... 15 more\n",
            "The value 'abc' in the config \"spark.sql.shuffle.partitions\" is invalid.",
        ),
    ],
)
def test_a_failure_is_one_sentence(text: str, told: str) -> None:
    assert sentence(Exception(text)) == told


@pytest.mark.parametrize(("memory_mb", "taken_mb"), [(2_000, 1_024), (8_192, 2_048), (65_536, 4_096)])
def test_java_gets_a_quarter_of_a_machine_within_bounds(memory_mb: int, taken_mb: int) -> None:
    assert driver_memory_mb(memory_mb) == taken_mb


def test_only_on_this_machine_spark_is_bound_to_it() -> None:
    assert session_settings("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in session_settings("spark://10.0.0.5:7077")


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*]", "local[2, 3]", "local-cluster[2,1,1024]", "yarn", "spark://a:1", "sc://a"],
)
def test_sparks_masters_are_taken(master: str) -> None:
    check_master(master, {"HADOOP_CONF_DIR": "/etc/hadoop"})


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("lokal", "Spark has no master 'lokal'; did you mean local[4]?"),
        ("local[two]", "master 'local[two]' is not valid; expected local[4] (threads) or local[*] (all processors)"),
        ("sparc://a:7077", "Spark has no master 'sparc://a:7077'; did you mean spark://host:7077?"),
        (
            "there",
            "Spark has no master 'there'; expected one like local[4], spark://host:7077, yarn, "
            "k8s://https://host:443, sc://host:15002",
        ),
        (
            "yarn",
            "master 'yarn' needs the environment variable HADOOP_CONF_DIR or YARN_CONF_DIR: the directory with the "
            "configuration of the Hadoop cluster",
        ),
    ],
)
def test_an_unknown_spark_master_is_reported_in_one_sentence(master: str, told: str) -> None:
    with pytest.raises(BadMaster) as refused:
        check_master(master, {})
    assert str(refused.value) == told


def test_settings_of_the_client_have_the_names_of_options() -> None:
    told = "check bootstrap_servers, security_protocol; topic my_client_id, transaction_timeout_ms.x and linger_ms are"
    assert in_option_names(told) == (
        "check kafka.bootstrap.servers, kafka.security.protocol; topic my_client_id, transaction_timeout_ms.x and "
        "kafka.linger.ms are"
    )
