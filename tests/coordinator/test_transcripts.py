"""Every transcript is what happens."""

from pathlib import Path

import pytest

from tests.coordinator.transcript import check

_TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("**/*.txt"))


@pytest.mark.parametrize("path", _TRANSCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_results_match_the_transcript(path: Path) -> None:
    check(path)
