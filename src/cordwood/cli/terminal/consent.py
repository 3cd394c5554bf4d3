"""Asks for confirmation before something that cannot be undone."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_INTERRUPTED, fail

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation (implied without a terminal).")]
YesDelete = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation (required without a terminal).")
]

_SHOWN = 10


def confirm(question: str, yes: bool) -> None:
    """Ends the command unless the user agrees."""
    if yes or not sys.stdin.isatty():
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        # Ctrl-C, or end of input: no answer.
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if not agreed:
        raise typer.Abort


def confirm_deletion(what: str, yes: bool) -> None:
    """Like `confirm`; without a terminal nothing is deleted unless `yes` is given."""
    if not yes and not sys.stdin.isatty():
        fail(f"this would delete {what}; there is no terminal to confirm on: give --yes to proceed", EXIT_BAD_INPUT)
    confirm(f"Delete {what}?", yes)


def shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
