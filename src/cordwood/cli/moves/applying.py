"""Executes a plan: throttles, begins, follows, removes the throttle, elects preferred leaders, checks the result."""

from collections.abc import Mapping, Sequence

from cordwood.cli.moves.following import follow
from cordwood.cli.moves.throttles import remove_throttles, set_throttles
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError

Targets = Mapping[TopicPartition, Sequence[int]]

# Partitions per request: a controller writes all records of a request at once.
_PER_REQUEST = 1_000


class NotMoved(ClientError):
    """A move did not end as planned: it was cancelled or replaced."""


async def current_replicas(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
    """Raises a `ClientError` for a missing topic or partition."""
    await admin.client.topics(sorted({partition.topic for partition in partitions}))
    return {partition: admin.client.cluster.partition(partition).replicas for partition in partitions}


async def begin(
    admin: Admin, targets: Targets, *, throttle: int | None = None, allow_replication_factor_change: bool = True
) -> dict[TopicPartition, ClientError]:
    """Submits the moves and returns those that were refused; the others proceed."""
    if throttle is not None:
        current = await current_replicas(admin, list(targets))
        await set_throttles(
            admin,
            {partition: _as_reassignment(current[partition], replicas) for partition, replicas in targets.items()},
            throttle,
        )
    refused: dict[TopicPartition, ClientError] = {}
    partitions = list(targets)
    for start in range(0, len(partitions), _PER_REQUEST):
        some = {partition: targets[partition] for partition in partitions[start : start + _PER_REQUEST]}
        call = admin.alter_partition_reassignments(
            some, allow_replication_factor_change=allow_replication_factor_change
        )
        refused |= await failures_of(call)
    return refused


async def finish(admin: Admin, targets: Targets) -> list[ClientError]:
    """Waits until none of the moves is in progress, removes throttles, elects the preferred leaders, and returns the
    partitions that are not where they should be."""
    await follow(admin, list(targets))
    await remove_throttles(admin, {partition.topic for partition in targets})
    # Replicas that cannot lead yet become leaders with the next automatic rebalance of leaders.
    await failures_of(admin.elect_leaders(list(targets)))
    await admin.client.refresh()
    current = await current_replicas(admin, list(targets))
    return [
        NotMoved(
            f"{partition} is on {_text(current[partition])} and not on {_text(replicas)}: its move was cancelled or "
            "replaced"
        )
        for partition, replicas in targets.items()
        if sorted(current[partition]) != sorted(replicas)
    ]


def _as_reassignment(current: Sequence[int], target: Sequence[int]) -> PartitionReassignment:
    adding = tuple(broker for broker in target if broker not in current)
    removing = tuple(broker for broker in current if broker not in target)
    return PartitionReassignment((*current, *adding), adding, removing)


def _text(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
