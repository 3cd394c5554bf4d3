"""Parses a command's arguments by the types of its options, without typer.

Importing typer brings pydantic along. Without it `cordwood up` starts in half the time with 12 MB less; for `cordwood
produce` of a million lines it saves a fifth of the time. Help, completion and anything invalid is left to typer, which
has better messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints


class Spelling(NamedTuple):
    """The spelling of options on the command line that differs from `--field-name`."""

    options: Mapping[str, str] = {}
    """Option names by field (`--json` for `as_json`, or `-b`)."""
    positional: Sequence[str] = ()
    """Fields that are given without an option, in order; the last may take several values."""


PLAIN = Spelling()


def quick_arguments(
    options_class: type[Any] | Sequence[type[Any]], words: Sequence[str], spelling: Spelling = PLAIN
) -> dict[str, Any] | None:
    """Returns the constructor arguments of `options_class` (or of several), or None if typer must parse them."""
    classes = options_class if isinstance(options_class, Sequence) else [options_class]
    kinds = {name: _plain(hint) for each in classes for name, hint in get_type_hints(each).items()}
    options = _options(kinds, spelling)
    arguments: dict[str, Any] = {}
    positional = list(spelling.positional)
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("-") or word == "-":
            if not positional:
                return None
            name = positional[0]
            if kinds[name].is_several:
                arguments.setdefault(name, []).append(word)
            else:
                arguments[positional.pop(0)] = word
            continue
        # Typer takes everything after a short option's letter for its value, including an equals sign.
        said, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if said not in options:
            return None
        name = options[said]
        kind = kinds[name]
        if kind.of is bool:
            if equals:
                return None
            arguments[name] = True
            continue
        if not equals:
            if not remaining:
                return None
            value = remaining.pop(0)
        try:
            if kind.is_several:
                arguments.setdefault(name, []).append(kind.of(value))
            else:
                arguments[name] = kind.of(value)
        except ValueError:
            return None
    return arguments


class _Kind(NamedTuple):
    """The type of a value."""

    of: type[Any]
    is_several: bool


def _options(kinds: Mapping[str, _Kind], spelling: Spelling) -> dict[str, str]:
    respelled = {name for option, name in spelling.options.items() if option.startswith("--")}
    plain = [name for name in kinds if name not in respelled and name not in spelling.positional]
    return {f"--{name.replace('_', '-')}": name for name in plain} | dict(spelling.options)


def _plain(annotation: Any) -> _Kind:
    """Returns the type inside an optional, or the item type of a sequence."""
    is_several = get_origin(annotation) is Sequence
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    (kind,) = kinds or [annotation]
    assert kind in (bool, int, float, str, Path) or issubclass(kind, Enum), annotation
    return _Kind(kind, is_several)
