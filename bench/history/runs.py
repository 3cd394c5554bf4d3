"""Records the figures of a run in the history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import TextIO

from bench.history.figures import figures_in

HISTORY = Path(__file__).parent / "figures.jsonl"


class _Tee(StringIO):
    """Passes text through to a stream, and keeps it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._stream.flush()


class Run:
    """One run of benchmarks; every figure carries its date, commit, software, machine and load average."""

    def __init__(self, software: str, machine: str, history: Path = HISTORY) -> None:
        self._history = history
        self._about = {
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": _commit(),
            "software": software,
            "machine": machine,
            "load": round(os.getloadavg()[0], 2),
        }

    @contextmanager
    def recording(self, benchmark: str) -> Iterator[None]:
        """Appends the figures that are printed within, unless the benchmark fails."""
        with redirect_stdout(_Tee(sys.stdout)) as printed:
            yield
        with self._history.open("a", encoding="utf-8") as file:
            for figure in figures_in(printed.getvalue().splitlines()):
                entry = {**self._about, "benchmark": benchmark, **figure._asdict()}
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _commit() -> str:
    """The commit, marked with + if the working tree has changes other than recorded figures; "?" outside a
    repository."""
    described = _git("describe", "--always", "--abbrev=10", "--exclude=*")
    recorded = [f":(top,exclude){path}" for path in ("bench/history/figures.jsonl", "docs/benchmarks.md")]
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *recorded)
    return f"{described or '?'}{'+' if changes else ''}"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HISTORY.parent, check=False, capture_output=True, text=True)
    return done.stdout.strip()
