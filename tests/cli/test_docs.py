"""docs/cli.md says what is true: its examples are run in their order, on a node of their own."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_runner import PATIENCE_S, run_here

DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"


def examples() -> Iterator[tuple[str, str]]:
    """Each command with what it prints."""
    for block in re.findall(r"^```console\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = example.partition("\n")
            yield command, printed


@pytest.mark.skipif(os.environ.get("CORDWOOD_TEST_KAFKA") is not None, reason="needs an empty node of its own")
def test_the_examples_print_the_documented_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put_on_path(tmp_path, monkeypatch)
    up = [sys.executable, "-m", "cordwood", "up", "--port", "0", "--data", str(tmp_path / "data")]
    # No new group waits for more members.
    up += ["--set", "group.initial.rebalance.delay.ms=0"]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = re.search(r"bootstrap ([^ ,]+)", node.stdout.readline())
            assert ready is not None
            monkeypatch.setenv("CORDWOOD_BOOTSTRAP", ready[1])
            for example, expected in examples():
                printed = _printed(example)
                # An ellipsis may span lines: not all rows of a kind are written down.
                pattern = re.escape(expected).replace("…", ".*")
                assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {example}\n{printed}"
        finally:
            node.terminate()


def _put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = folder / "cordwood"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m cordwood "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def _printed(example: str) -> str:
    if "|" not in example:
        # Examples without a shell run in this process, because starting one takes longest.
        done = run_here(shlex.split(example)[1:])
        return done.stdout.decode() + done.stderr
    return subprocess.run(
        ["bash", "-c", example],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    ).stdout
