"""The member of a classic group, tested by transcripts."""

from pathlib import Path

import pytest

from tests.client.member_transcript import check

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_the_member_follows_the_transcript(path: Path) -> None:
    check(path)
