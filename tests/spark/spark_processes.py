"""Spark's own servers, each a separate process on the loopback address, started from PySpark's wheel."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark

from cordwood.spark.java import find_java
from cordwood.spark.worker_python import worker_python

READY_WITHIN_S = 240.0
SPARK_HOME = Path(pyspark.__file__).parent


def spark_environment(folder: Path) -> dict[str, str]:
    """For Spark's scripts: nothing of the tests' own session, and files where they go with the test."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": worker_python(),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
    }


class SparkServer:
    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], folder: Path) -> None:
        self._process = subprocess.Popen(
            [SPARK_HOME / "bin" / command[0], *command[1:]],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = ""
        self._more = threading.Condition()
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,))
        self._reader.start()

    def until_said(self, pattern: str, *, times: int = 1) -> list[str]:
        """The first N different matches of the pattern's group."""

        def matches() -> list[str]:
            return list(dict.fromkeys(re.findall(pattern, self._said)))

        with self._more:
            found = self._more.wait_for(lambda: len(matches()) >= times, READY_WITHIN_S)
        assert found, f"{pattern} was not said:\n{self._said}"
        return matches()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self, stderr: IO[str]) -> None:
        with stderr:
            for line in stderr:
                with self._more:
                    self._said += line
                    self._more.notify_all()


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[tuple[str, SparkServer]]:
    """A master, whose address is given with it, and workers of a processor each."""
    environment = spark_environment(folder)
    started: list[SparkServer] = []

    def start(name: str, *arguments: str) -> SparkServer:
        command = ["spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0"]
        started.append(SparkServer([*command, *arguments], environment, folder))
        return started[-1]

    try:
        master = start("master.Master", "--port", "0")
        (address,) = master.until_said(r"Starting Spark master at (spark://\S+)")
        for _ in range(workers):
            start("worker.Worker", "--cores", "1", "--memory", "700m", address)
        master.until_said(r"Registering worker (\S+)", times=workers)
        yield address, master
    finally:
        for server in reversed(started):
            server.kill()


@contextmanager
def connect_server(folder: Path, port: int) -> Iterator[str]:
    """A Spark Connect server, by its address."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.log.level": "INFO",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = ["spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    server = SparkServer([*command, "spark-internal"], spark_environment(folder), folder)
    try:
        server.until_said(r"(Spark Connect server started)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
