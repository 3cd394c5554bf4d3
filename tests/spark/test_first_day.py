"""A newcomer's first programs print what was asked for, and nothing else."""

import ast
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


# As above, but nothing of ours is imported.
_SESSION_WITHOUT_US = _PLAIN_SESSION.replace("import cordwood.spark\n", "")
_SETUP = Path(__file__).parent.parent.parent / "setup.py"


@pytest.fixture
def start_hook(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with which Python starts as where the hook is installed in site-packages."""
    assigned = [node for node in ast.parse(_SETUP.read_text()).body if isinstance(node, ast.Assign)]
    [line] = [ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "START_HOOK"]
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "hook.pth").write_text(line)
    (folder / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(folder)!r})\n")
    return folder


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


def test_showing_a_few_rows_prints_only_those(node: NodeProcess, filled: str) -> None:
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


def test_a_program_that_imports_nothing_of_ours_finds_the_format_too(
    node: NodeProcess, filled: str, tmp_path: Path, start_hook: Path
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"])
    done = run(_SESSION_WITHOUT_US, node, filled, PATH=path, PYTHONPATH=str(start_hook))
    assert "record ['record', 'record']" in done.stdout, done.stderr


def test_the_start_hook_waits_for_pyspark_and_respects_the_users_choice(tmp_path: Path, start_hook: Path) -> None:
    stand_in = tmp_path / "modules"
    (stand_in / "pyspark").mkdir(parents=True)
    (stand_in / "pyspark" / "__init__.py").touch()
    program = (
        "import os, sys; name = 'PYSPARK_DRIVER_PYTHON'; import json; before = os.environ.get(name); "
        "assert 'cordwood' not in sys.modules; import pyspark; print(before, os.environ.get(name))"
    )

    def started(**chosen: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        path = os.pathsep.join([str(start_hook), str(stand_in)])
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**inherited, "PYTHONPATH": path, **chosen},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert started() == f"None {sys.executable}\n"
    assert started(PYSPARK_PYTHON="mine") == "None None\n"
    assert started(PYSPARK_DRIVER_PYTHON="mine") == "mine mine\n"


def test_a_python_that_the_user_has_chosen_is_kept() -> None:
    told = "import os, cordwood.spark; print(os.environ.get('PYSPARK_DRIVER_PYTHON'), os.environ.get('PYSPARK_PYTHON'))"

    def import_with(**chosen: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        environment = {**inherited, **chosen}
        return subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True, text=True).stdout

    assert import_with() == f"{sys.executable} None\n"
    assert import_with(PYSPARK_PYTHON="mine") == "None mine\n"
    assert import_with(PYSPARK_DRIVER_PYTHON="mine") == "mine None\n"
