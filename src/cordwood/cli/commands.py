"""All commands. Each is imported when it runs, so that `--version` and `--help` are quick."""

from typing import Annotated

import typer

from cordwood.cli.framework.lazy import LazyCommand, LazyGroup


class Commands(LazyGroup):
    lazy = (
        LazyCommand("up", "Start a node in the foreground.", "cordwood.cli.node.up", "up"),
        LazyCommand("format", "Format a cluster node's directories.", "cordwood.cli.node.format", "format_directories"),
        LazyCommand(
            "random-uuid", "Print an id for a cluster or a directory.", "cordwood.cli.node.format", "random_uuid"
        ),
        LazyCommand(
            "topic", "Create, list, describe, alter, trim and delete topics.", "cordwood.cli.topics.topic", "app"
        ),
        LazyCommand("produce", "Write lines, or JSON, to a topic.", "cordwood.cli.records.produce", "app"),
        LazyCommand("consume", "Read topics, to their end or following them.", "cordwood.cli.records.consume", "app"),
        LazyCommand("group", "List, describe, reset and delete consumer groups.", "cordwood.cli.groups.group", "app"),
        LazyCommand("txn", "List, describe and abort transactions.", "cordwood.cli.transactions.txn", "app"),
        LazyCommand("config", "Describe and change configurations.", "cordwood.cli.clusters.config", "app"),
        LazyCommand("cluster", "Show a cluster: brokers, features, quorum.", "cordwood.cli.clusters.cluster", "app"),
        LazyCommand(
            "quorum", "Show the metadata quorum, add and remove controllers.", "cordwood.cli.clusters.quorum", "app"
        ),
        LazyCommand("broker", "List, drain and unregister brokers.", "cordwood.cli.clusters.broker", "app"),
        LazyCommand("leader", "Elect leaders of partitions.", "cordwood.cli.topics.leader", "app"),
        LazyCommand(
            "reassign", "Plan and carry out moves of partitions between brokers.", "cordwood.cli.topics.reassign", "app"
        ),
        LazyCommand("logdirs", "Show brokers' log directories, move replicas.", "cordwood.cli.clusters.logdirs", "app"),
        LazyCommand("feature", "Show and change the levels of features.", "cordwood.cli.clusters.feature", "app"),
        LazyCommand("acl", "List, add and delete access control lists.", "cordwood.cli.security.acl", "app"),
        LazyCommand("quota", "Show and change client quotas.", "cordwood.cli.security.quota", "app"),
        LazyCommand("scram", "List, set and delete SCRAM credentials.", "cordwood.cli.security.scram", "app"),
        LazyCommand("token", "Create, list, renew and expire delegation tokens.", "cordwood.cli.security.token", "app"),
        LazyCommand(
            "profile", "Create, list, use, show and delete profiles.", "cordwood.cli.connection.profile", "app"
        ),
        LazyCommand("pipeline", "Run data pipelines on Spark.", "cordwood.cli.pipeline", "app"),
        LazyCommand("schema", "Register, read, check and compare schemas.", "cordwood.cli.schemas.schema", "app"),
        LazyCommand("registry", "Serve a schema registry.", "cordwood.cli.schemas.registry", "app"),
        LazyCommand("log", "Inspect log directories of Cordwood or Kafka.", "cordwood.cli.dump.log", "app"),
    )


app = typer.Typer(
    cls=Commands,
    help="A distributed commit log that speaks Apache Kafka's protocol.",
    epilog="Shell completion: cordwood --install-completion",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cordwood import __version__
        from cordwood.wire.records import COMPILED

        typer.echo(f"cordwood {__version__} (records: {'compiled' if COMPILED else 'pure Python'})")
        raise typer.Exit


@app.callback()
def cordwood(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version, and whether records run compiled or in pure Python.",
        ),
    ] = False,
) -> None:
    """The options that stand before a command."""
