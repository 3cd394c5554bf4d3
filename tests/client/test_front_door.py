"""`from cordwood import ...`: the names are there, and cost nothing before they are asked for."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import cordwood
from cordwood import aio
from cordwood.client import errors


def test_importing_cordwood_imports_nothing_else() -> None:
    """The start of a node and of each command counts it."""
    code = "import sys; before = set(sys.modules); import cordwood; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["cordwood"]


@pytest.mark.parametrize("name", cordwood.__all__)
def test_each_name_is_found_where_it_lives(name: str) -> None:
    assert getattr(cordwood, name).__name__ == name


def test_a_missing_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Produser'"):
        _ = cordwood.Produser  # type: ignore[attr-defined]


def test_type_checkers_see_all_names() -> None:
    source = Path(str(cordwood.__file__)).read_text(encoding="utf-8")
    seen = {
        (statement.module, alias.name)
        for node in ast.parse(source).body
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == {(home, name) for home, names in cordwood._HOMES.items() for name in names}
    assert sorted(cordwood.__all__) == sorted(name for _, name in seen)


def test_every_error_can_be_caught_by_a_name_from_the_top() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ClientError) and not name.startswith("_")
    }
    assert classes <= set(cordwood.__all__)


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_sync_and_async_clients_have_the_same_methods_and_arguments(name: str) -> None:
    """But for how they begin, and what the async ones offer to the sync ones and to the command line."""
    sync, asynchronous = getattr(cordwood, name), getattr(aio, name)
    left_out = {"start", "stop", "send_when_possible", "send_many_from_thread", "client", "settings"}
    left_out |= {"send_columns", "render"}
    for method, function in inspect.getmembers(asynchronous, callable):
        if method.startswith("_") or method in left_out:
            continue
        assert hasattr(sync, method), method
        ours, theirs = inspect.signature(getattr(sync, method)), inspect.signature(function)
        assert list(ours.parameters) == list(theirs.parameters), method
        for parameter, there in theirs.parameters.items():
            assert ours.parameters[parameter].kind == there.kind, (method, parameter)
            assert ours.parameters[parameter].default == there.default, (method, parameter)


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_sync_and_async_clients_are_made_alike(name: str) -> None:
    sync, asynchronous = getattr(cordwood, name), getattr(aio, name)
    assert inspect.signature(sync.__init__) == inspect.signature(asynchronous.__init__)
