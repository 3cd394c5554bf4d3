"""Every transcript is what happens."""

from pathlib import Path

import pytest

from tests.coordinator.transcript import check

_TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("**/*.txt"))


@pytest.mark.parametrize("path", _TRANSCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_happens_is_what_the_transcript_says(path: Path) -> None:
    check(path)
