"""`cordwood reassign`: moving partitions between brokers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, Access, end_with, fail, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson, OptionalPartitions
from cordwood.cli.terminal.consent import Yes, confirm
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError

app = typer.Typer(help="Move partitions between brokers.", no_args_is_help=True, add_completion=False)


@app.command("list", epilog="Examples:\n\ncordwood reassign list\n\ncordwood reassign list orders:0,1 --json")
@reaching_cluster
def list_moves(access: Access, topics: OptionalPartitions = None, as_json: AsJson = False) -> None:
    """Show the moves that are under way: topic, partition, replicas, those that come, those that go."""
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def work(admin: Admin) -> Mapping[TopicPartition, PartitionReassignment]:
        chosen = await chosen_partitions(admin, choices) if choices else None
        return await admin.list_partition_reassignments(chosen)

    moves = sorted(run(access, work).items())
    if as_json:
        print_json([_as_json(partition, move) for partition, move in moves])
    else:
        print_table(
            ("topic", "partition", "replicas", "adding", "removing"),
            [(*partition, move.replicas, move.adding_replicas, move.removing_replicas) for partition, move in moves],
        )


@app.command(
    epilog="Examples:\n\n"
    "cordwood reassign start orders:0=1:2:3 orders:1=2:3:1\n\n"
    "cordwood reassign start --from-file moves.json --yes"
)
@reaching_cluster
def start(
    access: Access,
    moves: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC:PARTITION=ID:ID...",
            help="The brokers of a partition, the preferred leader first.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="JSON, as kafka-reassign-partitions takes and prints it."),
    ] = None,
    keep_replication_factor: Annotated[
        bool, typer.Option("--keep-replication-factor", help="Reject a move that would change the replication factor.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Begin to move partitions to other brokers; reassign list shows how they come along."""
    if bool(moves) == (file is not None):
        raise typer.BadParameter("give moves, or --from-file", param_hint="TOPIC:PARTITION=ID:ID...")
    targets = dict(_parse(text) for text in moves or []) if file is None else _read(file)
    confirm(f"Move {counted(len(targets), 'partition')}?", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        call = admin.alter_partition_reassignments(targets, allow_replication_factor_change=not keep_replication_factor)
        return list((await failures_of(call)).values())

    failures = run(access, work)
    note(f"moving {counted(len(targets) - len(failures), 'partition')}")
    end_with(failures)


@app.command(epilog="Examples:\n\ncordwood reassign cancel orders:0\n\ncordwood reassign cancel --all --yes")
@reaching_cluster
def cancel(
    access: Access,
    topics: OptionalPartitions = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All moves in progress.")] = False,
    yes: Yes = False,
) -> None:
    """Call off moves that are under way: the partitions stay where they were."""
    if bool(topics) == everything:
        raise typer.BadParameter("name topics, or give --all", param_hint="TOPIC")
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def choose(admin: Admin) -> list[TopicPartition]:
        chosen = await chosen_partitions(admin, choices) if choices else None
        return sorted(await admin.list_partition_reassignments(chosen))

    partitions = run(access, choose)
    if not partitions:
        note("nothing is moving")
        return
    confirm(f"Cancel the moves of {counted(len(partitions), 'partition')}?", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.alter_partition_reassignments(dict.fromkeys(partitions)))).values())

    end_with(run(access, work))


def _parse(text: str) -> tuple[TopicPartition, list[int]]:
    place, _, brokers = text.partition("=")
    topic, _, number = place.rpartition(":")
    try:
        return TopicPartition(topic, _whole(number)), [_whole(broker) for broker in brokers.split(":")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not TOPIC:PARTITION=ID:ID, such as orders:0=1:2:3", param_hint="TOPIC:PARTITION=ID:ID..."
        ) from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _read(file: Path) -> dict[TopicPartition, Sequence[int]]:
    try:
        told = json.loads(file.read_text())
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): [int(broker) for broker in each["replicas"]]
            for each in told["partitions"]
        }
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_BAD_INPUT)
    except (ValueError, TypeError, KeyError) as error:
        like = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
        fail(f"{file} is not JSON such as {like}: {error}", EXIT_BAD_INPUT)


def _as_json(partition: TopicPartition, move: PartitionReassignment) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": list(move.replicas),
        "addingReplicas": list(move.adding_replicas),
        "removingReplicas": list(move.removing_replicas),
    }
