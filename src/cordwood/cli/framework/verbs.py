"""Commands and groups of them, as typer has them, with better help and better hints."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# typer has a copy of click of its own in some versions and not in others: its exceptions are reached through typer's.
UsageError: type[Any] = typer.BadParameter.__bases__[0]

# What people try, and what it may be called here; of these, a group suggests the ones that it has.
_MEANT = {
    "add": ("create",),
    "alter": ("set",),
    "change": ("alter", "set"),
    "clear": ("unset", "delete"),
    "del": ("delete", "unset"),
    "delete": ("unset",),
    "drop": ("delete",),
    "edit": ("alter", "set"),
    "find": ("list", "find-hanging"),
    "get": ("describe",),
    "hanging": ("find-hanging",),
    "info": ("describe", "cluster"),
    "ls": ("list",),
    "modify": ("alter", "set"),
    "new": ("create",),
    "remove": ("delete", "unset"),
    "reset": ("reset-offsets", "unset"),
    "rm": ("delete", "unset"),
    "seek": ("reset-offsets",),
    "set": ("alter",),
    "show": ("describe", "dump"),
    "update": ("alter", "set"),
    "verify": ("dump",),
    "view": ("describe", "dump"),
    # Whole commands.
    "broker": ("up",),
    "brokers": ("cluster",),
    "cat": ("consume",),
    "dump": ("log",),
    "node": ("up",),
    "publish": ("produce",),
    "read": ("consume",),
    "run": ("up", "pipeline"),
    "send": ("produce",),
    "serve": ("up",),
    "server": ("up",),
    "settings": ("config",),
    "spark": ("pipeline",),
    "start": ("up",),
    "status": ("cluster", "describe"),
    "subscribe": ("consume",),
    "tail": ("consume",),
    "transaction": ("txn",),
    "transactions": ("txn",),
    "write": ("produce",),
}


class Verb(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Verbs(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer's, which suggests what is spelled alike; what means the same is a better guess."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            tried = args[0].lower()
            meant = [name for name in _MEANT.get(tried, ()) if name in self.commands]
            if ctx.parent is None and tried in ("help", "version"):
                meant = [f"--{tried}"]
            if meant:
                error.message = f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, meant))}?"
            raise


def _without_types(parameters: list[Any]) -> list[Any]:
    """Has help show no type for a flag, which takes no value, and no `<list[str]>` beside the name of an argument."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        if parameter.param_type_name == "argument" and hasattr(parameter, "display_type_rich"):
            parameter.display_type_rich = lambda ctx: ""
    return parameters
