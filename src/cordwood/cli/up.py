"""`cordwood up`, as typer knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cordwood.broker.standalone import DEFAULT_DATA, DEFAULT_HOST, DEFAULT_PORT
from cordwood.cli.completion import complete_broker_assignment
from cordwood.cli.foreground import LogFormat, NodeOptions, run_node


def up(
    port: Annotated[
        int | None, typer.Option(help="Port for clients; 0 takes a free one.", show_default=str(DEFAULT_PORT))
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on and to tell clients: 0.0.0.0 needs advertised.listeners too.")
    ] = DEFAULT_HOST,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the data lies.", show_default=DEFAULT_DATA)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A server.properties, with Kafka's names.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="One of Kafka's broker settings; may be repeated.",
            autocompletion=complete_broker_assignment,
        ),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep the data in a temporary directory that goes with the node.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines are written to stderr.")] = LogFormat.TEXT,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "WARNING",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Serve /metrics for Prometheus, /healthz and /ready at this port; off unless given."
        ),
    ] = None,
    allow_strays: Annotated[
        bool,
        typer.Option(
            "--allow-strays",
            help="Start even if the metadata does not know many of the partitions: they are renamed to ...-stray.",
        ),
    ] = False,
    accept_metadata_loss: Annotated[
        bool,
        typer.Option(
            "--accept-metadata-loss",
            help="Start even if committed metadata is damaged or missing: what follows the damage is given up.",
        ),
    ] = False,
) -> None:
    """Start a node that Kafka's clients can use, until Ctrl-C or SIGTERM.

    Settings come from --config, then variables CORDWOOD_..., then --set and the options: the later wins. With
    CORDWOOD_LOG_RETENTION_HOURS=24 in the environment, log.retention.hours is 24.

    Examples:

      cordwood up

      cordwood up --port 0 --ephemeral --set auto.create.topics.enable=false

      cordwood up --config server.properties --data /var/lib/cordwood --log-format json
    """
    options = NodeOptions(
        port=port,
        host=host,
        data=data,
        config=config,
        set=settings or [],
        ephemeral=ephemeral,
        log_format=log_format,
        log_level=log_level,
        metrics_port=metrics_port,
        allow_strays=allow_strays,
        accept_metadata_loss=accept_metadata_loss,
    )
    raise typer.Exit(run_node(options))
