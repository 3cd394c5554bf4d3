"""`cordwood config`: describe, set and unset configurations."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.assignments import parse_changes
from cordwood.cli.framework.completion import complete_broker, complete_group, complete_topic
from cordwood.cli.framework.hints import nearest_setting, setting_names, warn_of_unknown_settings
from cordwood.cli.terminal.output import print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import AlterOperation, ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType

app = typer.Typer(
    help="Describe and change configurations of topics, brokers, groups, loggers and client metrics.",
    no_args_is_help=True,
    add_completion=False,
)


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"
    BROKER_DEFAULT = "broker-default"
    GROUP = "group"
    LOGGER = "logger"
    CLIENT_METRICS = "client-metrics"


_TYPES = {
    Kind.TOPIC: ConfigResourceType.TOPIC,
    Kind.BROKER: ConfigResourceType.BROKER,
    Kind.BROKER_DEFAULT: ConfigResourceType.BROKER,
    Kind.GROUP: ConfigResourceType.GROUP,
    Kind.LOGGER: ConfigResourceType.BROKER_LOGGER,
    Kind.CLIENT_METRICS: ConfigResourceType.CLIENT_METRICS,
}
_KINDS = {kind_type: kind for kind, kind_type in _TYPES.items() if kind is not Kind.BROKER_DEFAULT}

_COMPLETIONS = {
    Kind.TOPIC: complete_topic,
    Kind.BROKER: complete_broker,
    Kind.GROUP: complete_group,
    Kind.LOGGER: complete_broker,
}


def _complete_word(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the resource's name, then setting names: with a trailing `=` where a value follows."""
    kind, words = ctx.params.get("kind"), ctx.params.get("words") or []
    if kind is None:
        return []
    kind = Kind(kind)
    if not words and kind is not Kind.BROKER_DEFAULT:
        complete = _COMPLETIONS.get(kind)
        return [] if complete is None else complete(ctx, incomplete)
    suffix = "=" if ctx.command.name == "set" else ""
    return [f"{name}{suffix}" for name in setting_names(_TYPES[kind]) if name.startswith(incomplete)]


KindArgument = Annotated[Kind, typer.Argument(metavar="KIND", help=f"{', '.join(kind.value for kind in Kind)}.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="A topic, the id of a broker (also for its loggers), a group; none for broker-default. Then the settings.",
        show_default=False,
        autocompletion=_complete_word,
    ),
]
_MAX_TEXT_COLUMNS = 100
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")]


@app.command(
    epilog="Examples:\n\n"
    "cordwood config describe topic orders\n\n"
    "cordwood config describe topic orders retention.ms --docs\n\n"
    "cordwood config describe broker 1 --all --json\n\n"
    "cordwood config describe broker-default"
)
@reaching_cluster
def describe(
    access: Access,
    kind: KindArgument,
    words: Words = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Include settings at their default.")] = False,
    documentation: Annotated[
        bool, typer.Option("--docs", help="Show what each setting does; all settings unless some are named.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show settings: those that were changed, all of them (--all), or the named ones."""
    resource, names = _split(kind, words or [])

    async def work(admin: Admin) -> list[ConfigEntry]:
        return (await admin.describe_configs([resource], names or None, documentation=documentation))[resource]

    entries = run(access, work)
    known = {entry.name for entry in entries}
    if kind is Kind.BROKER_DEFAULT:
        from cordwood.config.keys import definition_of

        # Brokers list only the settings that were set for all brokers, but any broker setting may be set.
        known.update(name for name in names if definition_of(name) is not None)
    unknown = sorted(set(names) - known)
    if unknown:
        near = nearest_setting(resource.type, unknown[0])
        hint = f"; did you mean {near}?" if near else ""
        raise typer.BadParameter(f"{resource} has no setting {unknown[0]!r}{hint}", param_hint="NAME ...")
    if not show_all and not names and not documentation:
        entries = [entry for entry in entries if not entry.is_default]
    if as_json:
        print_json([_as_json(entry, documentation) for entry in entries])
    elif documentation and sys.stdout.isatty():
        _print_explained(entries)
    else:
        columns = ("name", "value", "source", "description")
        rows = [(entry.name, _shown(entry), entry.source.name, entry.documentation) for entry in entries]
        count = len(columns) if documentation else len(columns) - 1
        print_table(columns[:count], [row[:count] for row in rows])


@app.command(
    "set",
    epilog="Examples:\n\n"
    "cordwood config set topic orders retention.ms=3600000 cleanup.policy+=compact\n\n"
    "cordwood config set broker-default log.retention.ms=86400000\n\n"
    "cordwood config set logger 1 root=DEBUG",
)
@reaching_cluster
def set_config(access: Access, kind: KindArgument, words: Words = None, dry_run: DryRun = False) -> None:
    """Set NAME=VALUE; NAME+=ITEM and NAME-=ITEM add to and take from a list. All changes are made, or none."""
    resource, rest = _split(kind, words or [])
    changes = parse_changes(rest, "NAME=VALUE...")
    if not changes:
        raise typer.BadParameter("nothing to set: give NAME=VALUE", param_hint="NAME=VALUE...")
    run(access, partial(Admin.incremental_alter_configs, changes={resource: changes}, validate_only=dry_run))


@app.command(
    epilog="Examples:\n\n"
    "cordwood config unset topic orders retention.ms\n\n"
    "cordwood config unset broker-default log.retention.ms"
)
@reaching_cluster
def unset(access: Access, kind: KindArgument, words: Words = None, dry_run: DryRun = False) -> None:
    """Remove settings, so that the defaults apply again."""
    resource, names = _split(kind, words or [])
    if not names:
        raise typer.BadParameter("nothing to unset: give the names of settings", param_hint="NAME ...")
    changes = [ConfigChange(name, AlterOperation.DELETE) for name in names]
    run(access, partial(Admin.incremental_alter_configs, changes={resource: changes}, validate_only=dry_run))
    warn_of_unknown_settings(resource.type, names)


@app.command("list", epilog="Examples:\n\ncordwood config list\n\ncordwood config list group --json")
@reaching_cluster
def list_resources(
    access: Access,
    kind: Annotated[
        Kind | None, typer.Argument(metavar="KIND", help=f"{', '.join(kind.value for kind in Kind)}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the resources that can have, or do have, a configuration: topics, brokers, groups, client metrics."""
    types = [] if kind is None else [_TYPES[kind]]
    resources = run(access, partial(Admin.list_config_resources, types=types))
    if as_json:
        print_json([{"kind": _KINDS[resource.type].value, "name": resource.name} for resource in resources])
    else:
        print_table(("kind", "name"), [(_KINDS[resource.type].value, resource.name) for resource in resources])


def _split(kind: Kind, words: Sequence[str]) -> tuple[ConfigResource, list[str]]:
    """Splits the words into the resource's name and what follows it."""
    if kind is Kind.BROKER_DEFAULT:
        return ConfigResource(ConfigResourceType.BROKER, ""), list(words)
    if not words:
        raise typer.BadParameter(f"which {kind.value}?", param_hint="NAME ...")
    if kind in (Kind.BROKER, Kind.LOGGER) and not words[0].isdecimal():
        raise typer.BadParameter(
            f"{words[0]!r} is not the id of a broker (use broker-default for cluster-wide defaults)",
            param_hint="NAME ...",
        )
    return ConfigResource(_TYPES[kind], words[0]), list(words[1:])


def _shown(entry: ConfigEntry) -> str | None:
    return "(sensitive)" if entry.sensitive else entry.value


def _print_explained(entries: Sequence[ConfigEntry]) -> None:
    """Prints a paragraph per setting; in a table the descriptions would be a narrow column."""
    width = min(shutil.get_terminal_size().columns, _MAX_TEXT_COLUMNS)
    for position, entry in enumerate(entries):
        if position:
            print()
        print(f"{entry.name} = {'-' if entry.value is None else _shown(entry)} ({entry.source.name})")
        text = entry.documentation or "The broker has no description."
        print(textwrap.fill(text, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))


def _as_json(entry: ConfigEntry, documentation: bool) -> dict[str, Any]:
    described = {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "type": entry.type.name,
        "readOnly": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": synonym.source.name} for synonym in entry.synonyms
        ],
    }
    return described | {"documentation": entry.documentation} if documentation else described
