"""docs/spark.md says of every option what shows it, and that is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.spark.sink import options as sink_options
from cordwood.spark.source import options as source_options

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"
HEADING = "## Against Spark's connector, with what shows it"


def table(name: str) -> list[tuple[str, str]]:
    """The first and last cell of each row."""
    _, _, section = PAGE.read_text().partition(HEADING)
    _, _, body = section.partition(f"| {name} |")
    rows = [line.strip("| ").split(" | ") for line in body.partition("\n\n")[0].splitlines()[2:]]
    assert rows, f"there is no table {name}"
    return [(row[0], row[-1]) for row in rows]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def rows() -> Iterator[tuple[str, str]]:
    yield from table("reading")
    yield from table("writing")


@pytest.mark.parametrize(("what", "shown_by"), list(rows()))
def test_each_row_names_an_existing_test(what: str, shown_by: str) -> None:
    (test,) = named(shown_by)
    file, _, function = test.partition("::")
    assert f"def {function}(" in (Path(__file__).parent / file).read_text()


def test_every_option_of_a_read_has_a_row() -> None:
    assert set(source_options.KNOWN) - {name for what, _ in table("reading") for name in named(what)} == set()


def test_every_option_of_a_write_has_a_row() -> None:
    assert set(sink_options.KNOWN) - {name for what, _ in table("writing") for name in named(what)} == set()


def test_no_row_names_a_missing_option() -> None:
    columns = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"}
    known = {*source_options.KNOWN, *sink_options.KNOWN, *columns, "availableNow", "complete"}
    words = {name for what, _ in rows() for name in named(what)}
    assert {name for name in words - known if not name.startswith("kafka.")} == set()
