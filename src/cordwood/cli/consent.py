"""Asking before something is done that cannot be undone."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")]

_SHOWN = 10


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless whoever sits at the terminal agrees."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
