"""Moving everything away from brokers: leaders first, then replicas."""

from collections.abc import Collection, Sequence

from cordwood.cli.moves.applying import begin, finish
from cordwood.cli.moves.cluster_state import ClusterState, cluster_state
from cordwood.cli.moves.planner import Impossible, Move, Wish, plan_moves
from cordwood.cli.terminal.output import counted, note, warn
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError


async def drain_plan(
    admin: Admin, drained: Collection[int], targets: Collection[int], state: ClusterState
) -> list[Move]:
    """Raises `Impossible`, also if the drain could never finish: no replica to copy from, no room on disks."""
    affected = {
        partition: replicas for partition, replicas in state.assignment.items() if not set(replicas).isdisjoint(drained)
    }
    others = {partition: replicas for partition, replicas in state.assignment.items() if partition not in affected}
    taking = {broker: state.racks[broker] for broker in sorted(targets)}
    # Empty only the drained brokers; others keep their replicas, even if they are down.
    keeping = {broker: rack for broker, rack in state.racks.items() if broker not in drained and broker not in taking}
    moves = plan_moves(affected, Wish(taking, keeping), others)
    await admin.client.topics(sorted({move.partition.topic for move in moves}))
    for move in moves:
        if admin.client.cluster.partition(move.partition).leader not in admin.client.cluster.brokers:
            raise Impossible(
                f"{move.partition} has no leader to copy from: start one of its brokers "
                f"({', '.join(map(str, move.before))}) first"
            )
    lacking = state.without_room(moves)
    if lacking:
        raise Impossible(f"the disks have no room: {'; '.join(lacking)}")
    return moves


async def drain(
    admin: Admin, drained: Collection[int], targets: Collection[int], throttle: int | None
) -> list[ClientError]:
    """Moves replicas until the brokers have none, or returns the moves that failed. Replicas of topics created in
    between are moved in another round."""
    while True:
        state = await cluster_state(admin)
        moves = await drain_plan(admin, drained, targets, state)
        if not moves:
            return []
        await _move_leaders(admin, drained, moves)
        places: dict[TopicPartition, Sequence[int]] = {move.partition: move.after for move in moves}
        refused = await begin(admin, places, throttle=throttle)
        begun = {partition: replicas for partition, replicas in places.items() if partition not in refused}
        left = [*refused.values(), *await finish(admin, begun)]
        if left:
            return left


async def _move_leaders(admin: Admin, drained: Collection[int], moves: Sequence[Move]) -> None:
    """Moves leadership to in-sync replicas that stay, so that clients leave the brokers at once even if copying takes
    hours."""
    topics = await admin.client.topics(sorted({move.partition.topic for move in moves}))
    reordered: dict[TopicPartition, Sequence[int]] = {}
    for move in moves:
        partition = topics[move.partition.topic].partitions[move.partition.partition]
        staying = [broker for broker in move.after if broker in partition.isr]
        if partition.leader in drained and staying and set(partition.replicas) == set(move.before):
            others = [broker for broker in move.before if broker != staying[0]]
            reordered[move.partition] = [staying[0], *others]
    if not reordered:
        return
    refused = await failures_of(admin.alter_partition_reassignments(reordered))
    chosen = [partition for partition in reordered if partition not in refused]
    failed = await failures_of(admin.elect_leaders(chosen)) if chosen else {}
    for partition, error in {**refused, **failed}.items():
        warn(f"{partition} is still led by a broker that is drained: {error}")
    note(f"moved {counted(len(reordered) - len(refused) - len(failed), 'leader')}")
