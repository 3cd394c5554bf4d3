"""Plays every transcript. `REWRITE_TRANSCRIPTS=1` writes down what happens; read the diff before you commit it."""

import os
from pathlib import Path

import pytest

from tests.raft.raft_transcript import play

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    expected = path.read_text()
    actual = play(expected)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(actual)
    else:
        assert actual == expected
