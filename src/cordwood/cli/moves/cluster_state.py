"""Brokers and replicas of a cluster, as plans need them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cordwood.cli.moves.planner import Move
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.log_dirs import LogDir
from cordwood.client.admin.results import settled
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError, UnsupportedByBroker


@dataclass(frozen=True, slots=True)
class ClusterState:
    racks: Mapping[int, str | None]
    """Racks of all registered brokers."""
    fenced: frozenset[int]
    assignment: Mapping[TopicPartition, tuple[int, ...]]
    """All topics' replicas; for a partition that is being moved, the replicas that it will have."""
    sizes: Mapping[TopicPartition, int]
    """Bytes by replica, as far as brokers report them."""
    usable_bytes: Mapping[int, int]
    """Free space in the log directories of each broker; missing for brokers that do not report it."""

    def bytes_of(self, moves: Iterable[Move]) -> int:
        return sum(self.bytes_copied(move) for move in moves)

    def bytes_copied(self, move: Move) -> int:
        return self.sizes.get(move.partition, 0) * len(move.added)

    def bytes_into(self, broker: int, moves: Iterable[Move]) -> int:
        return sum(self.sizes.get(move.partition, 0) for move in moves if broker in move.added)

    def without_room(self, moves: Collection[Move]) -> list[str]:
        """Returns the brokers whose disks cannot hold the replicas to be moved there."""
        return [
            f"broker {broker} would get {needed:,} bytes and has {self.usable_bytes[broker]:,} free"
            for broker in sorted({broker for move in moves for broker in move.added})
            if (needed := self.bytes_into(broker, moves)) > self.usable_bytes.get(broker, needed)
        ]


async def cluster_state(admin: Admin) -> ClusterState:
    try:
        cluster = await admin.describe_cluster(include_fenced=True)
    except UnsupportedByBroker:
        # Brokers before 4.0 leave out fenced ones.
        cluster = await admin.describe_cluster()
    topics = await admin.list_topics(internal=True)
    assignment = {
        TopicPartition(topic.name, partition.index): partition.replicas
        for topic in topics.values()
        for partition in topic.partitions
    }
    for partition, move in (await admin.list_partition_reassignments()).items():
        assignment[partition] = tuple(broker for broker in move.replicas if broker not in move.removing_replicas)
    dirs = await live_log_dirs(admin)
    return ClusterState(
        {broker.id: broker.rack for broker in cluster.brokers},
        cluster.fenced,
        dict(sorted(assignment.items())),
        _sizes(dirs),
        {
            broker: sum(each.usable_bytes or 0 for each in found.values() if each.error is None)
            for broker, found in dirs.items()
            if all(each.usable_bytes is not None for each in found.values() if each.error is None)
        },
    )


async def live_log_dirs(
    admin: Admin, partitions: Collection[TopicPartition] | None = None
) -> dict[int, Mapping[str, LogDir]]:
    """Returns the log directories of the brokers that respond."""
    try:
        told = await settled(admin.describe_log_dirs(None, partitions))
    except ClientError:
        # Sizes are only shown; nothing fails without them.
        return {}
    return {broker: dirs for broker, dirs in told.items() if isinstance(dirs, Mapping)}


def _sizes(dirs: Mapping[int, Mapping[str, LogDir]]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for found in dirs.values():
        for log_dir in found.values():
            for partition, replica in log_dir.replicas.items():
                if not replica.is_future:
                    sizes[partition] = max(replica.size_bytes, sizes.get(partition, 0))
    return sizes
