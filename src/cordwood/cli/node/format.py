"""`cordwood format` and `cordwood random-uuid`: what `kafka-storage` does for a node before its first start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cordwood.broker.start.formatting import CannotFormat, Formatting, format_node
from cordwood.broker.start.standalone import node_config
from cordwood.cli.framework.completion import complete_broker_assignment
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.node.foreground import said_layers
from cordwood.cli.terminal.output import print_json
from cordwood.config.errors import BadConfiguration, ConfigError
from cordwood.config.quorum import parse_initial_controllers
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom, new_uuid
from cordwood.wire.primitives import uuid_text


def format_directories(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The node's server.properties.")],
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", "-t", metavar="ID", help="The cluster's id, the same for all of its nodes.")
    ],
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This node is the only initial controller.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY-ID,...",
            help="The initial controllers; give all nodes the same.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("--no-initial-controllers", "-N", help="The node joins an existing cluster, or is a broker only."),
    ] = False,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="The initial level of a feature; may be repeated."),
    ] = None,
    release_version: Annotated[
        str | None,
        typer.Option(
            "--release-version", "-r", metavar="VERSION", help="The release that determines the initial features."
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are formatted already.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="One of Kafka's broker settings; may be repeated.",
            autocompletion=complete_broker_assignment,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Format the directories of a cluster's node, as kafka-storage format does.

    A node of a cluster has to be formatted before its first start. Either tool's directories work with either server.
    With controller.quorum.voters, and for a node that is a broker only, no option names the controllers; otherwise one
    of --standalone, --initial-controllers and --no-initial-controllers does.

    Examples:

      cordwood format --config server.properties --cluster-id $(cordwood random-uuid) --standalone

      cordwood format --config server.properties --cluster-id MkU3OEVBNTcwNTJENDM2Qg --no-initial-controllers
    """
    try:
        if [standalone, initial_controllers is not None, no_initial_controllers].count(True) > 1:
            raise CannotFormat(
                "Only one of --standalone, --initial-controllers and --no-initial-controllers can be given."
            )
        formatting = Formatting(
            cluster_id,
            standalone=standalone,
            initial_controllers=() if initial_controllers is None else parse_initial_controllers(initial_controllers),
            no_initial_controllers=no_initial_controllers,
            levels=dict(_level(entry) for entry in feature or ()),
            release=release_version,
            ignore_formatted=ignore_formatted,
        )
        node = node_config(*said_layers(config, settings or ()))
        tell = _say_nothing if as_json else typer.echo
        formatted = format_node(node, formatting, LocalDisk, SeededRandom(), SystemClock().now_ms(), tell)
    except BadConfiguration as error:
        _give_up(error.problems)
    except (ConfigError, CannotFormat, DiskError) as error:
        _give_up([str(error)])
    if as_json:
        directories = [
            {"path": root, "directoryId": uuid_text(directory_id)} for root, directory_id in formatted.items()
        ]
        print_json({"clusterId": cluster_id, "nodeId": node.node_id, "formatted": directories})


def random_uuid(as_json: AsJson = False) -> None:
    """Print a random id for a new cluster or for a controller's directory."""
    text = uuid_text(new_uuid(SeededRandom()))
    if as_json:
        print_json({"id": text})
    else:
        typer.echo(text)


def _say_nothing(_line: str) -> None:
    """Suppresses messages, for output that a program reads."""


def _level(entry: str) -> tuple[str, int]:
    name, equals, level = entry.partition("=")
    if not equals:
        raise CannotFormat(f"Can't parse feature=level string {entry}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise CannotFormat(f"Can't parse feature=level string {entry}: unable to parse {level} as a short.") from None


def _give_up(problems: Sequence[str]) -> None:
    for problem in problems:
        typer.echo(f"cordwood format: {problem}", err=True)
    raise typer.Exit(1)
