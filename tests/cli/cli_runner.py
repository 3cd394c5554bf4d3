"""Runs the command: within this process, with files in the place of the streams, or as a separate process."""

import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cordwood.cli.commands import app

# Far more than anything here takes: a test that waits for what never comes fails instead of hanging.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    stdout: bytes
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.decode().splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class Cli:
    """Against one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: bytes = b"", fails: int = 0) -> Done:
        """Asserts the exit code. A new process for each call would take most of the time."""
        done = run_here([*arguments, "--bootstrap", self.bootstrap], stdin)
        assert done.code == fails, done
        return done

    @contextmanager
    def start(self, *arguments: str) -> Iterator["Running"]:
        """As a separate process, which does not outlive the test."""
        process = subprocess.Popen(
            [sys.executable, "-m", "cordwood", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"CORDWOOD_BOOTSTRAP": self.bootstrap},
        )
        with process:
            try:
                yield Running(process)
            finally:
                process.kill()


class Running:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr
        self._process = process

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def write(self, content: bytes) -> None:
        self.stdin.write(content)
        self.stdin.flush()

    def read_line(self) -> bytes:
        """Fails when there is none for long."""
        assert select.select([self.stdout], [], [], PATIENCE_S)[0], "nothing was printed"
        return self.stdout.readline()

    def interrupt(self) -> None:
        self.send_signal(signal.SIGINT)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """The exit code, and what it had to say."""
        return self._process.wait(PATIENCE_S), self.stderr.read().decode()


def run_here(arguments: list[str], stdin: bytes = b"") -> Done:
    with _streams(stdin) as (out, err):
        code = 0
        try:
            app(arguments, prog_name="cordwood")
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
        out.seek(0)
        err.seek(0)
        return Done(code, out.read(), err.read().decode())


@contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[Any, Any]]:
    saved = sys.stdin, sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        sys.stdin = io.TextIOWrapper(given, encoding="utf-8")
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
        sys.stderr = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
        try:
            yield out, err
        finally:
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.detach()
            sys.stdin, sys.stdout, sys.stderr = saved


def until(condition: Callable[[], bool]) -> None:
    """Kafka's brokers answer before they know a change themselves."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
