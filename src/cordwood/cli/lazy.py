"""Commands that are imported when they are called: `cordwood --help` knows their names and one line of each."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(TyperCommand):
    """Stands for what `attribute` of `module` is: a command's function or a `typer.Typer`."""

    def __init__(self, name: str, summary: str, module: str, attribute: str) -> None:
        super().__init__(name=name, help=summary, callback=None)
        self._module = module
        self._attribute = attribute

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        # The context belongs to the real command, which runs from here on.
        return self._real().make_context(info_name, args, parent, **extra)

    def _real(self) -> Any:
        found = getattr(import_module(self._module), self._attribute)
        if not isinstance(found, typer.Typer):
            command = found
            found = typer.Typer(add_completion=False)
            found.command(self.name)(command)
        real = typer.main.get_command(found)
        real.name = self.name
        return real


class LazyGroup(TyperGroup):
    """A group of `LazyCommand`s; a subclass says which."""

    lazy: tuple[LazyCommand, ...] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.lazy:
            self.add_command(command)
