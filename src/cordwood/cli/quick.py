"""A command's arguments, read by its own signature and without typer's machinery.

That machinery brings pydantic along. `cordwood up` starts in two thirds of the time and with 10 MB less when it does
not pass through it. What is not plain here (help, completion, anything wrong) is left to typer, which has good words
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


def quick_arguments(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The keyword arguments that `command`, all of whose parameters are options, is called with; None: ask typer."""
    options = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name != "return":
            annotation, info = get_args(hint)
            assert isinstance(info, OptionInfo)
            # Within Annotated the first name stands where a default would.
            names = [said for said in (info.default, *(info.param_decls or ())) if isinstance(said, str)]
            for said in names or [f"--{name.replace('_', '-')}"]:
                options[said] = (name, _plain(annotation))
    arguments: dict[str, Any] = {}
    remaining = list(words)
    while remaining:
        said, equals, value = remaining.pop(0).partition("=")
        if said not in options:
            return None
        name, kind = options[said]
        if kind is bool:
            if equals:
                return None
            arguments[name] = True
            continue
        if not equals:
            if not remaining:
                return None
            value = remaining.pop(0)
        try:
            if kind is list:
                arguments.setdefault(name, []).append(value)
            else:
                arguments[name] = kind(value)
        except ValueError:
            return None
    return arguments


def _plain(annotation: Any) -> type[Any]:
    """What a value is made with: an optional one's own type, `list` for a list of texts."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if kinds and get_origin(annotation) is not list:
        (annotation,) = kinds
    kind: type[Any] = get_origin(annotation) or annotation
    assert kind in (bool, int, str, list, Path) or issubclass(kind, Enum), annotation
    return kind
