"""`cordwood up` reads its arguments without typer, to the same effect."""

from pathlib import Path

import pytest

from cordwood.cli.quick import quick_arguments
from cordwood.cli.up import LogFormat, up


def test_options_become_keyword_arguments_of_their_types() -> None:
    words = ["--port", "0", "--set", "a=b", "--ephemeral", "--set=c=d", "--config", "x", "--log-format=json"]
    assert quick_arguments(up, words) == {
        "port": 0,
        "settings": ["a=b", "c=d"],
        "ephemeral": True,
        "config": Path("x"),
        "log_format": LogFormat.JSON,
    }


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--prot", "1"], ["--port"], ["--port", "many"], ["--log-format", "xml"], ["--ephemeral=yes"], ["x"]],
    ids=" ".join,
)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert quick_arguments(up, words) is None
