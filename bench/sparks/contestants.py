"""**Contestant**: a Spark session that is measured, in a separate process."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from bench.nodes.processes import as_installed, cpu_s, tree

_NOT_INHERITED = ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_PROGRAM = Path(__file__).parent / "session.py"


class WorkFailed(Exception):
    """In the session; the text says why."""


class Contestant:
    def __init__(self, name: str, format_name: str, python: str, jars: list[Path], bootstrap: str, log: Path) -> None:
        self.name = name
        self.workers_peak_mb = 0.0
        """The most that one of its Python workers ever held."""
        self._command = [python, str(_PROGRAM), format_name, bootstrap, *map(str, jars)]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def ask(self, work: str, **arguments: object) -> dict[str, Any]:
        """The first call starts the process. Raises `WorkFailed`."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise WorkFailed(f"{self.name}: the session ended during {work}; see {self._log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkFailed(f"{self.name}: {work}: {answer['error']}")
        self.workers_peak_mb = max(self.workers_peak_mb, *map(_peak_mb, tree(process.pid)))
        return answer

    def cpu_s(self) -> float:
        """The CPU time of its process, its JVM and its Python workers, so far."""
        return cpu_s(self._running().pid)

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            # The measured process must not find other Sparks or modules than its own.
            own = {name: value for name, value in as_installed().items() if name not in _NOT_INHERITED}
            with self._log.open("a") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env={**own, "SPARK_LOCAL_IP": "127.0.0.1"},
                )
        return self._process


def _peak_mb(pid: int) -> float:
    """The memory of a Python worker; 0 for others."""
    try:
        if b"pyspark.daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0.0
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) * 1024 / 1e6 if found else 0.0
