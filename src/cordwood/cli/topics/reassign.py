"""`cordwood reassign`: planning, starting, following and cancelling moves of partitions between brokers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, Access, end_with, fail, reaching_cluster, run
from cordwood.cli.framework.completion import complete_broker, complete_topic
from cordwood.cli.framework.shared_options import AsJson, OptionalPartitions
from cordwood.cli.moves.applying import begin, current_replicas, finish
from cordwood.cli.moves.cluster_state import ClusterState, cluster_state
from cordwood.cli.moves.following import Copied, follow, measure
from cordwood.cli.moves.plan_file import plan_json, read_plan, write_plan
from cordwood.cli.moves.plan_output import print_plan
from cordwood.cli.moves.planner import Impossible, Move, Wish, plan_moves
from cordwood.cli.moves.throttles import parse_rate, remove_throttles
from cordwood.cli.terminal.consent import Yes, confirm
from cordwood.cli.terminal.output import counted, note, print_json, print_table, warn
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.cli.topics.topic_choice import choose_topics
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError

app = typer.Typer(help="Move partitions between brokers.", no_args_is_help=True, add_completion=False)

_MOVES = "FILE|TOPIC:PARTITION=ID:ID..."

Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        help="Limit the replication of moves, in bytes per second and broker: 50000000, 50M. Set in the cluster, "
        "and removed again at the end of --wait, or by reassign status --wait.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the moves have finished.")]
Moves = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=_MOVES,
        help="A plan's file, or moves: the brokers of a partition, the preferred leader first.",
        show_default=False,
    ),
]
FromFile = Annotated[
    Path | None,
    typer.Option("--from-file", metavar="FILE", help="JSON, as kafka-reassign-partitions takes and prints it."),
]
Rollback = Annotated[
    Path | None,
    typer.Option(
        "--rollback",
        metavar="FILE",
        help="Write the current placement to this file, to move partitions back with apply.",
    ),
]
KeepReplicationFactor = Annotated[
    bool, typer.Option("--keep-replication-factor", help="Reject a move that would change the replication factor.")
]


@app.command(
    epilog="Examples:\n\n"
    "cordwood reassign plan --output plan.json\n\n"
    "cordwood reassign plan --drain 3 --output plan.json\n\n"
    "cordwood reassign plan orders 'bill*' --replication-factor 3\n\n"
    "cordwood reassign plan --broker 4 --broker 5 --broker 6 orders"
)
@reaching_cluster
def plan(
    access: Access,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="Names, or patterns such as 'test-*'; default: all topics.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    brokers: Annotated[
        list[int] | None,
        typer.Option(
            "--broker",
            metavar="ID",
            min=0,
            help="Only these brokers may have replicas; may be repeated. Default: all.",
            autocompletion=complete_broker,
        ),
    ] = None,
    drain: Annotated[
        list[int] | None,
        typer.Option(
            "--drain",
            metavar="ID",
            min=0,
            help="Move all replicas away from this broker; may be repeated.",
            autocompletion=complete_broker,
        ),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", metavar="N", min=1, help="The new replication factor.")
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Also even out replicas and leaders (the default without other goals).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan to this file, for apply.")
    ] = None,
    rollback: Rollback = None,
    as_json: AsJson = False,
) -> None:
    """Compute a placement of replicas with as few moves as possible, and show the difference. Changes nothing.

    Replicas of a partition are placed in different racks if there are enough. Without --drain, --broker and
    --replication-factor it evens out replicas and preferred leaders over all brokers, for example after adding one.
    """
    has_wishes = bool(drain or brokers or replication_factor)

    async def work(admin: Admin) -> tuple[ClusterState, list[Move]]:
        topics = await choose_topics(admin, patterns or [], internal=True)
        state = await cluster_state(admin)
        allowed = allowed_brokers(state, drain or [], brokers)
        wish = Wish(allowed, replication_factor=replication_factor, balance=balance or not has_wishes)
        return state, planned(state, wish, [topic.name for topic in topics])

    try:
        state, moves = run(access, work)
    except Impossible as error:
        fail(str(error))
    targets = {move.partition: move.after for move in moves}
    if output is not None:
        write_plan(output, targets)
    if rollback is not None:
        write_plan(rollback, {move.partition: move.before for move in moves})
    if as_json:
        print_json(plan_json(targets))
    elif not moves:
        note("nothing to move")
    else:
        print_plan(state, moves)
    for problem in state.without_room(moves):
        warn(problem)
    if moves:
        note(
            f"cordwood reassign apply {output or 'FILE'} --wait carries it out" + ("" if output else " (see --output)")
        )


@app.command(
    epilog="Examples:\n\n"
    "cordwood reassign apply plan.json --throttle 50M --wait\n\n"
    "cordwood reassign apply orders:0=1:2:3 orders:1=2:3:1\n\n"
    "cordwood reassign apply plan.json --rollback back.json --yes"
)
@reaching_cluster
def apply(
    access: Access,
    moves: Moves = None,
    file: FromFile = None,
    throttle: Throttle = None,
    wait: Wait = False,
    rollback: Rollback = None,
    keep_replication_factor: KeepReplicationFactor = False,
    yes: Yes = False,
) -> None:
    """Start the moves of a plan; reassign status shows their progress."""
    targets = _targets(moves or [], file)
    rate = given_rate(throttle)

    async def look(admin: Admin) -> dict[TopicPartition, tuple[int, ...]]:
        return await current_replicas(admin, list(targets))

    if rollback is not None:
        write_plan(rollback, run(access, look))
    confirm(f"Move {counted(len(targets), 'partition')}?", yes)

    async def work(admin: Admin) -> list[ClientError]:
        refused = await begin(
            admin, targets, throttle=rate, allow_replication_factor_change=not keep_replication_factor
        )
        begun = {partition: replicas for partition, replicas in targets.items() if partition not in refused}
        left = await finish(admin, begun) if wait else []
        note(f"{'moved' if wait else 'moving'} {counted(len(begun) - len(left), 'partition')}")
        if rate is not None and not wait and begun:
            note("cordwood reassign status --wait removes the throttle at the end")
        return [*refused.values(), *left]

    end_with(run(access, work))


app.command(
    "start",
    epilog="Examples:\n\n"
    "cordwood reassign start orders:0=1:2:3 orders:1=2:3:1\n\n"
    "cordwood reassign start --from-file moves.json --yes",
    help="The same as apply.",
)(apply)


@app.command(
    epilog="Examples:\n\ncordwood reassign status\n\ncordwood reassign status orders:0,1 --json\n\n"
    "cordwood reassign status --wait"
)
@reaching_cluster
def status(access: Access, topics: OptionalPartitions = None, wait: Wait = False, as_json: AsJson = False) -> None:
    """Show moves in progress, and how much of each is copied.

    With --wait it returns when they have finished, and removes the throttles that apply --throttle has set.
    """
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def work(admin: Admin) -> list[tuple[TopicPartition, PartitionReassignment, Copied]]:
        chosen = await chosen_partitions(admin, choices) if choices else None
        moves = await admin.list_partition_reassignments(chosen)
        if wait:
            await follow(admin, list(moves))
            for resource in await remove_throttles(admin):
                note(f"removed the throttle of {resource}")
            moves = await admin.list_partition_reassignments(chosen)
        copied = await measure(admin, moves)
        return [(partition, move, copied[partition]) for partition, move in sorted(moves.items())]

    found = run(access, work)
    if as_json:
        print_json(
            [
                {**_as_json(partition, move), "copiedBytes": copied.done, "totalBytes": copied.total}
                for partition, move, copied in found
            ]
        )
        return
    print_table(
        ("topic", "partition", "replicas", "adding", "removing", "copied", "of bytes", "percent"),
        [
            (
                *partition,
                move.replicas,
                move.adding_replicas,
                move.removing_replicas,
                copied.done,
                copied.total,
                copied.percent,
            )
            for partition, move, copied in found
        ],
    )
    if not found:
        note("nothing is moving")


@app.command("list", epilog="Examples:\n\ncordwood reassign list\n\ncordwood reassign list orders:0,1 --json")
@reaching_cluster
def list_moves(access: Access, topics: OptionalPartitions = None, as_json: AsJson = False) -> None:
    """List moves in progress without asking brokers for sizes: topic, partition, replicas, those being added, those
    being removed."""
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


@app.command(epilog="Examples:\n\ncordwood reassign cancel orders:0\n\ncordwood reassign cancel --all --yes")
@reaching_cluster
def cancel(
    access: Access,
    topics: OptionalPartitions = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All moves in progress.")] = False,
    yes: Yes = False,
) -> None:
    """Cancel moves in progress: the partitions stay where they were. Throttles that are left are removed."""
    if bool(topics) == everything:
        raise typer.BadParameter("name topics, or give --all", param_hint="TOPIC")
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def choose(admin: Admin) -> list[TopicPartition]:
        chosen = await chosen_partitions(admin, choices) if choices else None
        return sorted(await admin.list_partition_reassignments(chosen))

    partitions = run(access, choose)
    if partitions:
        confirm(f"Cancel the moves of {counted(len(partitions), 'partition')}?", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        refused: dict[TopicPartition, BrokerError] = {}
        if partitions:
            refused = await failures_of(admin.alter_partition_reassignments(dict.fromkeys(partitions)))
            note(f"cancelled the moves of {counted(len(partitions) - len(refused), 'partition')}")
        else:
            note("nothing is moving")
        # Also of moves that ended unobserved.
        await remove_throttles(admin, {choice.topic for choice in choices} or None)
        return list(refused.values())

    end_with(run(access, work))


def allowed_brokers(
    state: ClusterState, drained: Sequence[int], chosen: Sequence[int] | None = None
) -> dict[int, str | None]:
    """Returns the brokers that may have replicas, with their racks. Raises `Impossible`."""
    for broker in (*drained, *(chosen or ())):
        if broker not in state.racks and not any(broker in replicas for replicas in state.assignment.values()):
            raise Impossible(f"there is no broker {broker}: the brokers are {', '.join(map(str, sorted(state.racks)))}")
    wanted = set(state.racks if chosen is None else chosen) - set(drained)
    down = wanted - (set(state.racks) - state.fenced)
    if down:
        listed = ", ".join(map(str, sorted(down)))
        raise Impossible(
            f"broker {listed} is down and cannot take replicas: start it, or move its replicas away (--drain {listed})"
        )
    return {broker: state.racks[broker] for broker in sorted(wanted)}


def planned(state: ClusterState, wish: Wish, topics: Sequence[str]) -> list[Move]:
    """Raises `Impossible`."""
    chosen = {partition: replicas for partition, replicas in state.assignment.items() if partition.topic in topics}
    others = {partition: replicas for partition, replicas in state.assignment.items() if partition not in chosen}
    return plan_moves(chosen, wish, others)


def given_rate(text: str | None) -> int | None:
    try:
        return None if text is None else parse_rate(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--throttle") from error


def _targets(arguments: Sequence[str], file: Path | None) -> dict[TopicPartition, Sequence[int]]:
    files = [Path(text) for text in arguments if "=" not in text and Path(text).is_file()]
    files += [file] if file is not None else []
    moves = [text for text in arguments if Path(text) not in files]
    if len(files) + bool(moves) != 1:
        raise typer.BadParameter("give moves, or a file with a plan", param_hint=_MOVES)
    if files:
        return read_plan(files[0])
    return dict(_parse(text) for text in moves)


def _parse(text: str) -> tuple[TopicPartition, list[int]]:
    if "=" not in text and ("/" in text or text.endswith(".json")):
        fail(f"{text}: No such file or directory", EXIT_BAD_INPUT)
    place, _, brokers = text.partition("=")
    topic, _, number = place.rpartition(":")
    try:
        return TopicPartition(topic, _whole(number)), [_whole(broker) for broker in brokers.split(":")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not TOPIC:PARTITION=ID:ID, such as orders:0=1:2:3, nor a file", param_hint=_MOVES
        ) from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _as_json(partition: TopicPartition, move: PartitionReassignment) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": list(move.replicas),
        "addingReplicas": list(move.adding_replicas),
        "removingReplicas": list(move.removing_replicas),
    }
