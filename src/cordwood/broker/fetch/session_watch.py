"""The partitions of a follower's fetch session that a fetch has to examine.

A broker follows thousands of partitions of another one in one session, and few of them have news at a time. A partition
whose follower is caught up and up to date rests: fetches skip it until

- the follower asks for another offset, or comes with another broker epoch;
- the partition wakes it: records, a high watermark, a log start, another leader;
- it has rested for `LOOK_MS`. Changes that don't wake a partition are noticed by then.

A resting partition is caught up without being counted by each fetch. The leader is told so when records arrive
(`FollowerSeen`), before it can consider the follower lagging.
"""

from __future__ import annotations

from itertools import islice

from cordwood.replica.leader import FollowerSeen
from cordwood.replica.partition import Partition, Watcher

from .wanted import PartitionKey, WantedPartition

LOOK_MS = 1000


class SessionWatch:
    """A `replica.partition.Watcher`, for as long as the session lasts. `due` are the partitions to examine, in reading
    order; `watched` those that can wake it."""

    __slots__ = ("_epochs", "_fetched_ms", "_resting", "due", "parked", "watched")

    is_follower = True

    def __init__(self, now_ms: int) -> None:
        self.due: dict[PartitionKey, WantedPartition] = {}
        self.watched: dict[Partition, WantedPartition] = {}
        # The fetch that waits for more, if any.
        self.parked: Watcher | None = None
        # The one that has rested for longest first; with the follower's id, for the leader.
        self._resting: dict[PartitionKey, tuple[WantedPartition, int]] = {}
        self._fetched_ms = now_ms
        # The follower's broker epoch, and the one that it is registered with.
        self._epochs: tuple[int, int | None] = (-1, None)

    def want(self, wanted: WantedPartition) -> None:
        """The follower asks for the partition, or for another offset of it."""
        key = wanted.key
        self._resting.pop(key, None)
        self.due[key] = wanted

    def forget(self, wanted: WantedPartition) -> None:
        self._resting.pop(wanted.key, None)
        self.due.pop(wanted.key, None)
        if wanted.watched is not None:
            self._unwatch(wanted.watched, wanted)

    def fetched(self, epochs: tuple[int, int | None], now_ms: int) -> None:
        """Handles a fetch; its broker epoch may differ from the registered one."""
        if epochs != self._epochs:
            self._epochs = epochs
            count = len(self._resting)
        else:
            elapsed_ms = max(0, now_ms - self._fetched_ms)
            count = min(len(self._resting), -(-len(self._resting) * elapsed_ms // LOOK_MS))
        self._fetched_ms = now_ms
        for wanted, _ in list(islice(self._resting.values(), count)):
            self.want(wanted)

    def watch(self, partition: Partition, wanted: WantedPartition) -> None:
        if wanted.watched is not partition:
            if wanted.watched is not None:
                # The topic was deleted and recreated, or its replica was removed and added again.
                self._unwatch(wanted.watched, wanted)
            wanted.watched = partition
            self.watched[partition] = wanted
            partition.watch(self)

    def rest(self, wanted: WantedPartition, replica_id: int) -> None:
        """The follower is caught up and has the latest state: the partition is watched."""
        key = wanted.key
        if self.due.pop(key, None) is not None:
            self._resting[key] = wanted, replica_id

    def read_last(self, wanted: WantedPartition) -> None:
        self.due[wanted.key] = self.due.pop(wanted.key, wanted)

    def close(self) -> None:
        """The session has ended, or was idle for long. If it continues, all partitions are examined."""
        for wanted, _ in list(self._resting.values()):
            self.want(wanted)
        for partition, wanted in list(self.watched.items()):
            self._unwatch(partition, wanted)

    def _unwatch(self, partition: Partition, wanted: WantedPartition) -> None:
        wanted.watched = None
        if self.watched.get(partition) is wanted:
            del self.watched[partition]
            partition.unwatch(self)

    # As a watcher

    def woken(self, partition: Partition) -> None:
        self._wake(partition)
        if self.parked is not None:
            self.parked.woken(partition)

    def high_watermark_moved(self, partition: Partition) -> None:
        """The next answer has it; that is no reason to answer now."""
        self._wake(partition)

    def expire(self) -> None:
        if self.parked is not None:
            self.parked.expire()

    def _wake(self, partition: Partition) -> None:
        wanted = self.watched[partition]
        resting = self._resting.pop(wanted.key, None)
        if resting is not None:
            self.due[wanted.key] = wanted
            partition.follower_seen(FollowerSeen(resting[1], self._fetched_ms))
