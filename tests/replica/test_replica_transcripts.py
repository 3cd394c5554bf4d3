"""Leader and follower do what their transcripts say."""

from pathlib import Path

import pytest

from tests.replica.replica_transcript import check

_TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", _TRANSCRIPTS, ids=lambda path: path.stem)
def test_effects_match_the_transcript(path: Path) -> None:
    check(path)
