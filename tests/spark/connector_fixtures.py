"""Spark's own Kafka connector, with the Spark that it was made for, next to `format("cordwood")`.

It is in its own environment, which `python -m bench spark` makes. `CORDWOOD_SPARK_CONNECTOR` names its folder;
without it, it is within the virtual environment of the tests.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import connector_program
from tests.spark.connector_program import Told

if TYPE_CHECKING:
    from tests.foreign_clients.node_process import NodeProcess


class Both:
    """Has the same done by both formats."""

    def __init__(self, ask_connector: Callable[..., Told], spark: SparkSession, bootstrap: str) -> None:
        self._ask_connector = ask_connector
        self._spark = spark
        self._always = {"kafka.bootstrap.servers": bootstrap}

    def read(self, options: dict[str, str]) -> tuple[Told, Told]:
        """The results of Cordwood and of the connector."""
        chosen = self._always | options
        return connector_program.read(self._spark, "cordwood", chosen), self._ask_connector("read", options=chosen)

    def read_stream(self, options: dict[str, str]) -> tuple[Told, Told]:
        return self.our_stream(options), self.their_stream(options)

    def our_stream(self, options: dict[str, str], checkpoint: str | None = None) -> Told:
        return connector_program.read_stream(self._spark, "cordwood", self._always | options, checkpoint)

    def their_stream(self, options: dict[str, str], checkpoint: str | None = None) -> Told:
        return self._ask_connector("read_stream", options=self._always | options, checkpoint=checkpoint)

    def write(self, rows: str, our_options: dict[str, str], their_options: dict[str, str]) -> tuple[Told, Told]:
        """To different topics."""
        ours = connector_program.write(self._spark, "cordwood", self._always | our_options, rows)
        return ours, self._ask_connector("write", options=self._always | their_options, rows=rows)


@pytest.fixture(scope="session")
def ask_connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Told]]:
    folder = Path(os.environ.get("CORDWOOD_SPARK_CONNECTOR") or Path(sys.prefix) / "spark-connector")
    python, jars = folder / "venv" / "bin" / "python", sorted(map(str, (folder / "jars").glob("*.jar")))
    if not python.exists() or not jars:
        pytest.skip(
            f"Spark's Kafka connector is not in {folder}: `python -m bench spark --only first-row --quick` gets it"
        )
    command = [str(python), connector_program.__file__, *jars]
    with (tmp_path_factory.mktemp("connector") / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            # Its own Spark and interpreter, wherever those of the tests are.
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))},
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": str(python),
            },
        )

    def ask(work: str, **arguments: Any) -> Told:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the connector's process has ended: {process.wait()}"
        told: Told = json.loads(line)
        return told

    yield ask
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def both(ask_connector: Callable[..., Told], spark: SparkSession, node: "NodeProcess") -> Both:
    return Both(ask_connector, spark, node.bootstrap)
