"""A pipeline as `cordwood pipeline run` runs it, in a separate process: what it says is waited for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 300.0

COPYING = """
def pipeline(spark, bootstrap, source, target, trap=""):
    rows = spark.readStream.format("cordwood").option("kafka.bootstrap.servers", bootstrap)
    rows = rows.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
    copy = rows.writeStream.queryName("copy").format("cordwood").option("kafka.bootstrap.servers", bootstrap)
    if trap:
        copy = copy.option("testing.at", trap)
    return copy.option("topic", target).option("checkpointLocation", "checkpoint").start()
"""
"""Copies one topic to another."""


class RunningPipeline:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._more = threading.Condition()
        self.said = ""
        self._is_over = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def until_said(self, *words: str) -> None:
        """All of them in one line."""

        def is_said() -> bool:
            return any(all(word in line for word in words) for line in self.said.splitlines())

        with self._more:
            self._more.wait_for(lambda: is_said() or self._is_over, PATIENCE_S)
        assert is_said(), f"{words} was not said:\n{self.said}"

    def interrupt(self) -> int:
        """Ctrl-C, which a terminal sends to all processes of the group; the exit code."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self.exit_code()

    def exit_code(self) -> int:
        """Waits for the process to end."""
        code = self._process.wait(PATIENCE_S)
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._more:
                self.said += line
                self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()


@contextmanager
def running(folder: Path, text: str, bootstrap: str, **arguments: str) -> Iterator[RunningPipeline]:
    (folder / "pipeline.py").write_text(text)
    command = [sys.executable, "-m", "cordwood", "pipeline", "run", "pipeline.py", "--master", "local[2]"]
    command += ["--bootstrap", bootstrap, "--conf", "spark.driver.memory=1g"]
    for name, value in arguments.items():
        command += ["--set", f"{name}={value}"]
    own = ("PYSPARK", "CORDWOOD")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield RunningPipeline(process)
        finally:
            process.kill()
