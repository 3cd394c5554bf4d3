"""Typer commands and groups with better help and better suggestions."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Some versions of typer vendor click, so its exceptions are reached through typer's.
UsageError: type[Any] = typer.BadParameter.__bases__[0]

# Verbs that users try, and their synonyms here; a group suggests those that it has.
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
    # Suggestions for whole commands.
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
        return _with_plain_names(super().get_params(ctx), ctx)


class Verbs(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_names(super().get_params(ctx), ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Like typer's, which suggests names of similar spelling, but prefers synonyms."""
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


def _with_plain_names(parameters: list[Any], ctx: Any) -> list[Any]:
    """Removes Python types from help: no value name for flags and arguments, a meaningful one for other options."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            if hasattr(parameter, "display_type_rich"):
                parameter.display_type_rich = lambda ctx: ""
            continue
        if parameter.metavar is None:
            parameter.metavar = "" if getattr(parameter, "is_flag", False) else _value_name(parameter, ctx)
        # `[x>=0]` is left out; the error message for an invalid value says it.
        if hasattr(parameter, "_get_number_range_help_str"):
            parameter._get_number_range_help_str = lambda: None
    return parameters


_NUMBERS = ("int", "integer", "float")
_FILES = ("path", "file", "directory", "filename")


def _value_name(option: Any, ctx: Any) -> str:
    """`N` for numbers, the values of a choice, else the last word of the option: LEVEL of --log-level."""
    if hasattr(option, "display_type"):
        kind = option.display_type(ctx).strip("<>")
    else:
        # For versions of typer that use click.
        kind = "|".join(getattr(option.type, "choices", ())) or option.type.name
    kind = kind.removeprefix("list[").removesuffix("]").removesuffix(" range")
    if "|" in kind:
        return str(kind)
    if kind in _NUMBERS:
        return "N"
    if kind.lower() in _FILES:
        return "FILE"
    return str(max(option.opts, key=len).rpartition("-")[2].upper())
