"""A newcomer's first programs print what was asked for, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood import Admin, Producer
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.source_reading import create

# More than fits between Spark and a Python worker, so that the worker is writing when Spark has what it wants.
RECORDS = 50_000
_OURS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "CORDWOOD_SPARK_NURSERY", "JDK_JAVA_OPTIONS")

_LOOKS = """
table = spark.read.format("cordwood").option("kafka.bootstrap.servers", {bootstrap!r}).option("subscribe", {topic!r})
rows = table.load().selectExpr("cast(value as string) text", "repeat('x', 1000) more")
rows.select("text").show(1)
print(rows.first().text, [row.text for row in rows.limit(2).collect()])
spark.stop()
"""
_SESSION = """
import cordwood.spark
spark = cordwood.spark.session(master="local[1]", settings={"spark.driver.memory": "1g"})
"""
_PLAIN_SESSION = """
import cordwood.spark
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "1g")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""


@pytest.fixture
def filled(admin: Admin, producer: Producer, topic: str) -> str:
    create(admin, topic)
    for _ in range(RECORDS):
        producer.send(topic, b"record")
    producer.flush()
    return topic


def run(program: str, node: NodeProcess, topic: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    text = program + _LOOKS.format(bootstrap=node.bootstrap, topic=topic)
    inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
    return subprocess.run(
        [sys.executable, "-c", text], env={**inherited, **environment}, capture_output=True, text=True, check=False
    )


def test_looking_at_a_few_rows_prints_them_and_nothing_else(node: NodeProcess, filled: str) -> None:
    done = run(_SESSION, node, filled)
    assert "record ['record', 'record']" in done.stdout
    # Neither a BrokenPipeError of PySpark's daemon, nor Java's warning of an incubator module.
    assert done.stderr == ""


def test_a_plain_session_finds_the_format_where_the_environment_is_not_activated(
    node: NodeProcess, filled: str, tmp_path: Path
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    done = run(_PLAIN_SESSION, node, filled, PATH=os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    assert "record ['record', 'record']" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_that_the_user_has_chosen_is_kept() -> None:
    told = "import os, cordwood.spark; print(os.environ.get('PYSPARK_DRIVER_PYTHON'), os.environ.get('PYSPARK_PYTHON'))"

    def import_with(**chosen: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        environment = {**inherited, **chosen}
        return subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True, text=True).stdout

    assert import_with() == f"{sys.executable} None\n"
    assert import_with(PYSPARK_PYTHON="mine") == "None mine\n"
    assert import_with(PYSPARK_DRIVER_PYTHON="mine") == "mine None\n"
