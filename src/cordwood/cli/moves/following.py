"""Follows the progress of moves until their end."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cordwood.cli.moves.cluster_state import live_log_dirs
from cordwood.cli.terminal.output import warn
from cordwood.cli.terminal.progress import progress
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.cluster import TopicPartition

# Poll interval; each poll asks every broker for sizes.
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Copied:
    """Bytes copied to new replicas, and bytes in total."""

    done: int
    total: int

    @property
    def percent(self) -> int:
        return 100 * self.done // self.total if self.total else 0


async def measure(admin: Admin, moves: Mapping[TopicPartition, PartitionReassignment]) -> dict[TopicPartition, Copied]:
    """Sums the sizes that brokers report."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker, dirs in (await live_log_dirs(admin, list(moves)) if moves else {}).items():
        for log_dir in dirs.values():
            for partition, replica in log_dir.replicas.items():
                if not replica.is_future:
                    sizes.setdefault(partition, {})[broker] = replica.size_bytes
    measured = {}
    for partition, move in moves.items():
        found = sizes.get(partition, {})
        sources = [broker for broker in move.replicas if broker not in move.adding_replicas]
        whole = max((found.get(broker, 0) for broker in sources), default=0)
        done = sum(min(found.get(broker, 0), whole) for broker in move.adding_replicas)
        measured[partition] = Copied(done, whole * len(move.adding_replicas))
    return measured


async def follow(admin: Admin, partitions: Collection[TopicPartition]) -> None:
    """Returns when none of these partitions is being moved; shows a progress bar in bytes on a terminal."""
    known: dict[TopicPartition, Copied] = {}
    moves = await admin.list_partition_reassignments(partitions)
    known.update(await measure(admin, moves))
    # The total is known after the first poll, and grows with concurrent writes.
    total = sum(copied.total for copied in known.values())
    with progress("moving", max(total, 1), wanted=True, unit=f"of {len(partitions):,} partitions") as update:
        try:
            while moves:
                known.update(await measure(admin, moves))
                finished = [partition for partition in known if partition not in moves]
                done = sum(known[partition].total for partition in finished)
                done += sum(known[partition].done for partition in moves if partition in known)
                update(min(done, total), len(partitions) - len(moves))
                await asyncio.sleep(_POLL_S)
                moves = await admin.list_partition_reassignments(partitions)
        except asyncio.CancelledError:
            warn(
                "the moves go on: cordwood reassign status shows them, with --wait to their end, when it also removes "
                "throttles; cordwood reassign cancel calls them off"
            )
            raise
