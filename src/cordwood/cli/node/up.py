"""The typer command `cordwood up`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cordwood.broker.start.standalone import DEFAULT_DATA, DEFAULT_HOST, DEFAULT_PORT
from cordwood.cli.framework.completion import complete_broker_assignment
from cordwood.cli.node.foreground import LogFormat, NodeOptions, run_node


def up(
    port: Annotated[
        int | None, typer.Option(help="Port for clients; 0 takes a free one.", show_default=str(DEFAULT_PORT))
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on and to advertise; 0.0.0.0 needs advertised.listeners too.")
    ] = DEFAULT_HOST,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Data directory.", show_default=DEFAULT_DATA)] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A server.properties file with Kafka's settings.")
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
        bool, typer.Option("--ephemeral", help="Keep the data in a temporary directory, deleted when the node stops.")
    ] = False,
    brokers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Run a cluster of N brokers on this machine, each a process; the first three are controllers too.",
        ),
    ] = None,
    controllers: Annotated[
        int | None, typer.Option(metavar="N", help="With --brokers: run N separate controllers instead.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Format of log lines on stderr.")] = LogFormat.TEXT,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "WARNING",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Serve /metrics for Prometheus, /healthz and /ready at this port; off unless given."
        ),
    ] = None,
    registry_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Serve a schema registry at this port (8081 is usual), with --brokers from it on; off unless given.",
        ),
    ] = None,
    registry_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL at which other nodes' registries reach this one.", show_default=False),
    ] = None,
    allow_strays: Annotated[
        bool,
        typer.Option(
            "--allow-strays",
            help="Start even if the metadata does not know many of the partitions; they are renamed to ...-stray.",
        ),
    ] = False,
    accept_metadata_loss: Annotated[
        bool,
        typer.Option(
            "--accept-metadata-loss",
            help="Start even if committed metadata is damaged or missing: everything after the damage is lost.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON once the node, or the cluster, is ready.")
    ] = False,
) -> None:
    """Start a node that Kafka's clients can use, until Ctrl-C or SIGTERM.

    Settings come from --config, then variables CORDWOOD_..., then --set and the options: later ones take precedence.
    With CORDWOOD_LOG_RETENTION_HOURS=24 in the environment, log.retention.hours is 24.

    With a --config that names other controllers, or one of the two roles, the node joins a cluster: it uses Kafka's
    defaults, and its directories must be formatted first (cordwood format).

    With --brokers it starts a whole cluster: ports from --port on (controllers 100 above), a rack for each broker,
    topics with three replicas, of which two must be in sync (fewer if there are fewer brokers). A node that dies is
    restarted. The same command on the same --data (or cordwood-cluster) continues the same cluster.

    Examples:

      cordwood up

      cordwood up --port 0 --ephemeral --set auto.create.topics.enable=false

      cordwood up --config server.properties --data /var/lib/cordwood --log-format json

      cordwood up --brokers 3 --ephemeral
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
        registry_port=registry_port,
        registry_url=registry_url,
        allow_strays=allow_strays,
        accept_metadata_loss=accept_metadata_loss,
        brokers=brokers,
        controllers=controllers,
        as_json=as_json,
    )
    raise typer.Exit(run_node(options))
