"""`cordwood up` reads its arguments without typer, to the same effect."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cordwood.cli.foreground import LogFormat, NodeOptions
from cordwood.cli.quick import quick_arguments
from cordwood.cli.up import up


def test_options_become_keyword_arguments_of_their_types() -> None:
    words = ["--port", "0", "--set", "a=b", "--ephemeral", "--set=c=d", "--config", "x", "--log-format=json"]
    assert quick_arguments(NodeOptions, words) == {
        "port": 0,
        "set": ["a=b", "c=d"],
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
    assert quick_arguments(NodeOptions, words) is None


def test_typer_knows_the_same_options_with_the_same_defaults() -> None:
    app = typer.Typer()
    app.command()(up)
    known = {option.opts[0]: option.default for option in typer.main.get_command(app).params}
    for name in ("--install-completion", "--show-completion"):
        known.pop(name)
    defaults = {f"--{name.replace('_', '-')}": value for name, value in NodeOptions()._asdict().items()}
    assert known.pop("--set") is None
    assert not defaults.pop("--set")
    assert known == defaults


def test_a_node_starts_without_what_only_other_commands_need() -> None:
    code = (
        "import sys\n"
        "import cordwood.cli.foreground, cordwood.cli.main, cordwood.cli.quick\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    others = ["typer", "rich", "pydantic", "pyarrow", "argparse", "email", "tempfile", "re2", "cordwood.client"]
    done = subprocess.run([sys.executable, "-c", code, *others], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
