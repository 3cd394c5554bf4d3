"""The diagrams in docs/ are those of the tables that the code runs on."""

from pathlib import Path

import pytest

from state_diagrams import drawn, pages


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_pages_diagrams_are_those_of_the_code(path: Path) -> None:
    assert path.read_text() == drawn(path.read_text()), "run: python tools/state_diagrams.py"


def test_transactions_have_a_diagram() -> None:
    assert "transactions.md" in {path.name for path in pages()}
