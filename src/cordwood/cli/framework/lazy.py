"""Imports commands when they are called; `cordwood --help` knows only their names and a line about each."""

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import typer

from cordwood.cli.framework.verbs import UsageError, Verb, Verbs


class LazyCommand(Verb):
    """A stand-in for `attribute` of `module`: a command's function or a `typer.Typer`."""

    def __init__(self, name: str, summary: str, module: str, attribute: str) -> None:
        super().__init__(name=name, help=summary, callback=None)
        self._module = module
        self._attribute = attribute

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        # The context belongs to the real command, which takes over here.
        return self._real().make_context(info_name, args, parent, **extra)

    def _real(self) -> Any:
        found = getattr(import_module(self._module), self._attribute)
        if not isinstance(found, typer.Typer):
            command = found
            found = typer.Typer(add_completion=False)
            found.command(self.name)(command)
        found.info.cls = Verbs
        for registered in found.registered_commands:
            registered.cls = Verb
        real = typer.main.get_command(found)
        real.name = self.name
        return real


class LazyGroup(Verbs):
    """A group of `LazyCommand`s, which a subclass lists."""

    lazy: tuple[LazyCommand, ...] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.lazy:
            self.add_command(command)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Like typer's, but a usage error is one line, like every other error."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except UsageError as error:
            # A group without a subcommand has shown its help.
            if type(error).__name__ != "NoArgsIsHelpError":
                hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
                print(f"cordwood: {_message_of(error)}{hint}", file=sys.stderr)
            sys.exit(error.exit_code)
        except typer.Abort:
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _message_of(error: Any) -> str:
    """Returns the message with the value: in some versions typer has pydantic check values, whose message lacks it."""
    message = " ".join(error.format_message().split()).replace(": Value error, ", ": ", 1).removesuffix(".")
    problems = getattr(error.__cause__, "errors", None)
    if problems is None:
        return message
    return message.partition(", unable to parse")[0].replace(
        ": Input should", f": {problems()[0]['input']!r} should", 1
    )
