"""Runs the command: within this process, with files in the place of the streams, or as a process of its own."""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cordwood.cli.main import app


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
        done = _run_here([*arguments, "--bootstrap", self.bootstrap], stdin)
        assert done.code == fails, done
        return done

    def start(self, *arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "cordwood", *arguments],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=os.environ | {"CORDWOOD_BOOTSTRAP": self.bootstrap},
        )


def _run_here(arguments: list[str], stdin: bytes) -> Done:
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
    """Kafka's brokers answer before they have heard of a change themselves."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
