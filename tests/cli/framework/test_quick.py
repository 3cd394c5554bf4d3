"""`cordwood up`, `produce` and `consume` read their arguments without typer, to the same effect."""

import subprocess
import sys
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
import typer

from cordwood.cli.connection.access import Access
from cordwood.cli.framework.quick import Spelling, quick_arguments
from cordwood.cli.node.foreground import SPELLING, LogFormat, NodeOptions
from cordwood.cli.node.up import up
from cordwood.cli.records import consume, consuming, produce, producing


def test_options_become_keyword_arguments_of_their_types() -> None:
    words = ["--port", "0", "--set", "a=b", "--ephemeral", "--set=c=d", "--config", "x", "--log-format=json", "--json"]
    assert quick_arguments(NodeOptions, words, SPELLING) == {
        "port": 0,
        "set": ["a=b", "c=d"],
        "ephemeral": True,
        "config": Path("x"),
        "log_format": LogFormat.JSON,
        "as_json": True,
    }


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--prot", "1"], ["--port"], ["--port", "many"], ["--log-format", "xml"], ["--ephemeral=yes"], ["x"]],
    ids=" ".join,
)
def test_unusual_arguments_are_passed_to_typer(words: list[str]) -> None:
    assert quick_arguments(NodeOptions, words, SPELLING) is None


def test_typer_knows_the_same_options_with_the_same_defaults() -> None:
    app = typer.Typer()
    app.command()(up)
    known = {option.opts[0]: option.default for option in typer.main.get_command(app).params}
    for name in ("--install-completion", "--show-completion"):
        known.pop(name)
    respelled = {name: option for option, name in SPELLING.options.items()}
    defaults = {
        respelled.get(name, f"--{name.replace('_', '-')}"): value for name, value in NodeOptions()._asdict().items()
    }
    assert known.pop("--set") is None
    assert not defaults.pop("--set")
    assert known == defaults


@pytest.mark.parametrize(
    ("app", "options_class", "spelling"),
    [
        (produce.app, producing.ProduceOptions, producing.SPELLING),
        (consume.app, consuming.ConsumeOptions, consuming.SPELLING),
    ],
    ids=["produce", "consume"],
)
def test_typer_knows_the_options_of_records_with_the_same_meaning(
    app: typer.Typer, options_class: type[Any], spelling: Spelling
) -> None:
    """Each alone, spelled in every way, becomes what typer makes of it; those with a negation are typer's own."""
    command = typer.main.get_command(app)
    positional = [param.name for param in command.params if param.param_type_name == "argument"]
    assert positional == list(spelling.positional)
    hints = get_type_hints(Access) | get_type_hints(options_class)
    tried = 0
    for param in command.params:
        if param.name in (*positional, "help"):
            continue
        field = RENAMED.get(param.name or "", param.name or "")
        sample = sample_of(hints[field])
        for option in param.opts:
            words = ["topic", option, *sample]
            context = command.make_context("cordwood", list(words))
            found = quick_arguments((Access, options_class), words, spelling)
            if found is None:
                assert param.secondary_opts, words
            else:
                assert found[field] == context.params[param.name], words
                tried += 1
    assert tried > 20
    plain = command.make_context("cordwood", ["topic"]).params
    defaults = dict(options_class("topic")._asdict()) | {field.name: field.default for field in fields(Access)}
    for name, default in plain.items():
        if name not in positional:
            assert (default or None) == (defaults[RENAMED.get(name, name)] or None), name


def sample_of(annotation: Any) -> list[str]:
    """A value that it takes; none for a flag."""
    (kind,) = [kind for kind in get_args(annotation) if kind is not NoneType] or [annotation]
    if kind is bool:
        return []
    return [next(iter(kind)).value if issubclass(kind, Enum) else {int: "7", float: "2.5"}.get(kind, "text")]


RENAMED = {"count": "record_count"}
"""A tuple has a `count` of its own."""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t"], {"topic": "t"}),
        (["t", "a", "-", "--json"], {"topic": "t", "files": ["a", "-"], "as_json": True}),
        (["-H", "a=b", "t", "--header=c=d"], {"topic": "t", "headers": ["a=b", "c=d"]}),
        (["t", "-p3"], None),
        (["t", "--", "-x"], None),
        (["t", "-K"], None),
        (["--compression", "best", "t"], None),
    ],
)
def test_arguments_without_an_option_are_taken_in_their_order(
    words: list[str], expected: dict[str, object] | None
) -> None:
    assert quick_arguments((Access, producing.ProduceOptions), words, producing.SPELLING) == expected


@pytest.mark.parametrize("module", ["producing", "consuming"])
def test_produce_and_consume_do_not_import_modules_of_other_commands(module: str) -> None:
    code = (
        "import sys\n"
        f"import cordwood.cli.main, cordwood.cli.records.{module}\n"
        "import cordwood.client.consumer.consumer, cordwood.client.producer.producer\n"
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    others = ["typer", "rich", "pydantic", "pyarrow", "cordwood.client.admin.admin", "cordwood.broker"]
    others += ["cordwood.client.consumer.membership.events", "cordwood.client.options.configuration"]
    done = subprocess.run([sys.executable, "-c", code, *others], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_node_starts_without_modules_of_other_commands() -> None:
    code = (
        "import sys\n"
        "import cordwood.cli.node.foreground, cordwood.cli.main, cordwood.cli.framework.quick\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    others = ["typer", "rich", "pydantic", "pyarrow", "argparse", "email", "tempfile", "re2", "cordwood.client"]
    # HTTP is loaded when a listener asks for it.
    others += ["h11", "starlette", "anyio"]
    done = subprocess.run([sys.executable, "-c", code, *others], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
