"""Prints a plan: each move, and the resulting load of the brokers."""

from collections import Counter
from collections.abc import Mapping, Sequence

from cordwood.cli.moves.cluster_state import ClusterState
from cordwood.cli.moves.planner import Move
from cordwood.cli.terminal.output import counted, note, print_table
from cordwood.client.cluster import TopicPartition


def print_plan(state: ClusterState, moves: Sequence[Move]) -> None:
    """Rows: `move` topic, partition, replicas now and then, bytes to copy; `broker` id, rack, replicas and preferred
    leaders now and then, bytes to come."""
    print_table(
        ("topic", "partition", "now", "planned", "bytes to copy"),
        [(*move.partition, move.before, move.after, state.bytes_copied(move)) for move in moves],
        title="Moves",
        kind="move",
    )
    planned = {**state.assignment, **{move.partition: move.after for move in moves}}
    print_table(
        ("broker", "rack", "replicas now", "planned", "leaders now", "planned", "bytes to come"),
        [
            (
                broker,
                state.racks.get(broker),
                _held(state.assignment)[broker],
                _held(planned)[broker],
                _preferred(state.assignment)[broker],
                _preferred(planned)[broker],
                state.bytes_into(broker, moves),
            )
            for broker in sorted({*state.racks, *_held(state.assignment)})
        ],
        title="Brokers",
        kind="broker",
    )
    copied = sum(len(move.added) for move in moves)
    note(
        f"{counted(len(moves), 'partition')} to change, {counted(copied, 'replica')} to copy, "
        f"{counted(state.bytes_of(moves), 'byte')}"
    )


def _held(assignment: Mapping[TopicPartition, Sequence[int]]) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def _preferred(assignment: Mapping[TopicPartition, Sequence[int]]) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values() if replicas)
