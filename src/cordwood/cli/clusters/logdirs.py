"""`cordwood logdirs`: the log directories of running brokers, and moving replicas between them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson, OptionalPartitions, Partitions
from cordwood.cli.terminal.consent import Yes, confirm
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.log_dirs import LogDir, TopicPartitionReplica
from cordwood.client.admin.results import failures_of
from cordwood.client.errors import BrokerError

app = typer.Typer(
    help="Show brokers' log directories, and move replicas between them.", no_args_is_help=True, add_completion=False
)

# Interval between looks at a move's progress.
_POLL_S = 0.2

Described = Mapping[int, Mapping[str, LogDir]]


@app.command(
    "list",
    epilog="Examples:\n\n"
    "cordwood logdirs list\n\n"
    "cordwood logdirs list --broker 1 --replicas\n\n"
    "cordwood logdirs list orders:0,1 --json",
)
@reaching_cluster
def list_dirs(
    access: Access,
    topics: OptionalPartitions = None,
    brokers: Annotated[
        list[int] | None, typer.Option("--broker", metavar="ID", min=0, help="Only this broker; may be repeated.")
    ] = None,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Also the replicas in them; naming topics does the same.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show log directories: broker, path, state, bytes in all and free, and how many replicas with how many bytes."""
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def work(admin: Admin) -> Described:
        chosen = await chosen_partitions(admin, choices) if choices else None
        return await admin.describe_log_dirs(brokers, chosen)

    described = run(access, work)
    if as_json:
        print_json([_as_json(broker, log_dir) for broker, log_dir in _rows(described)])
    else:
        _print(described, with_replicas=replicas or bool(choices))


@app.command(
    epilog="Examples:\n\n"
    "cordwood logdirs move orders:0,1 --broker 1 --to /disks/2\n\n"
    "cordwood logdirs move orders --broker 1 --to /disks/2 --wait --yes"
)
@reaching_cluster
def move(
    access: Access,
    topics: Partitions,
    broker: Annotated[
        int,
        typer.Option("--broker", metavar="ID", min=0, help="The broker whose replicas to move.", show_default=False),
    ],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="One of that broker's log.dirs.", show_default=False)],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the moves have finished.")] = False,
    yes: Yes = False,
) -> None:
    """Move replicas of a broker into another of its log directories, while they are read and written."""
    choices = parse_partition_choices(topics, "TOPIC")

    async def choose(admin: Admin) -> list[TopicPartitionReplica]:
        return [TopicPartitionReplica(*each, broker) for each in await chosen_partitions(admin, choices)]

    replicas = run(access, choose)
    confirm(f"Move {counted(len(replicas), 'replica')} of broker {broker} to {to}?", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        failed = await failures_of(admin.alter_replica_log_dirs(dict.fromkeys(replicas, to)))
        begun = [replica for replica in replicas if replica not in failed]
        if wait:
            await _until_moved(admin, begun)
        note(f"{'moved' if wait else 'moving'} {counted(len(begun), 'replica')}")
        return list(failed.values())

    end_with(run(access, work))


async def _until_moved(admin: Admin, replicas: Sequence[TopicPartitionReplica]) -> None:
    while replicas:
        places = await admin.describe_replica_log_dirs(replicas)
        replicas = [replica for replica in replicas if places[replica].future is not None]
        if replicas:
            await asyncio.sleep(_POLL_S)


def _rows(described: Described) -> list[tuple[int, LogDir]]:
    return [(broker, log_dir) for broker, dirs in described.items() for log_dir in dirs.values()]


def _print(described: Described, *, with_replicas: bool) -> None:
    print_table(
        ("broker", "directory", "state", "total bytes", "usable bytes", "replicas", "replica bytes"),
        [
            (
                broker,
                log_dir.path,
                _state(log_dir),
                log_dir.total_bytes,
                log_dir.usable_bytes,
                len(log_dir.replicas),
                sum(replica.size_bytes for replica in log_dir.replicas.values()),
            )
            for broker, log_dir in _rows(described)
        ],
        title="Directories" if with_replicas else None,
        kind="directory" if with_replicas else None,
    )
    if with_replicas:
        print_table(
            ("broker", "directory", "topic", "partition", "bytes", "lag", "moving in"),
            [
                (broker, log_dir.path, *partition, replica.size_bytes, replica.offset_lag, replica.is_future)
                for broker, log_dir in _rows(described)
                for partition, replica in sorted(log_dir.replicas.items())
            ],
            title="Replicas",
            kind="replica",
        )


def _state(log_dir: LogDir) -> str:
    if log_dir.error is not None:
        return "offline" if log_dir.error.code.name == "KAFKA_STORAGE_ERROR" else log_dir.error.code.name
    return "cordoned" if log_dir.is_cordoned else "online"


def _as_json(broker: int, log_dir: LogDir) -> dict[str, Any]:
    return {
        "broker": broker,
        "directory": log_dir.path,
        "state": _state(log_dir),
        "totalBytes": log_dir.total_bytes,
        "usableBytes": log_dir.usable_bytes,
        "replicas": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "sizeBytes": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "future": replica.is_future,
            }
            for partition, replica in sorted(log_dir.replicas.items())
        ],
    }
