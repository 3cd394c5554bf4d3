"""The partitions of a follower's fetch session that a fetch has to look at.

A broker follows thousands of partitions of another one in one session, and few of them have something new at a time.
One that the follower has everything of, and has been told everything about, rests: fetches pass over it until

- the follower asks for another offset, or comes with another broker epoch;
- the partition wakes it: records, a high watermark, a log start, another leader;
- it has rested for `LOOK_MS`. Whatever changes without waking a partition is noticed by then.

A resting partition is caught up without being counted by each fetch. The leader is told so when records arrive
(`FollowerSeen`), before it can take the follower for lagging.
"""

from __future__ import annotations

from itertools import islice

from cordwood.replica.leader import FollowerSeen
from cordwood.replica.partition import Partition, Watcher

from .wanted import PartitionKey, WantedPartition

LOOK_MS = 1000


class SessionWatch:
    """A `replica.partition.Watcher`, for as long as the session lasts. `due` are the partitions to look at, in the
    order in which they are read; `watched` those that wake it."""

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
        """A fetch has come, with a broker epoch, while another one may be registered."""
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
                # The topic was deleted and made again, or its replica went and came back.
                self._unwatch(wanted.watched, wanted)
            wanted.watched = partition
            self.watched[partition] = wanted
            partition.watch(self)

    def rest(self, wanted: WantedPartition, replica_id: int) -> None:
        """There is nothing that the follower lacks or has to be told. The partition is watched."""
        key = wanted.key
        if self.due.pop(key, None) is not None:
            self._resting[key] = wanted, replica_id

    def read_last(self, wanted: WantedPartition) -> None:
        self.due[wanted.key] = self.due.pop(wanted.key, wanted)

    def close(self) -> None:
        """The session is over, or was not used for long. It may go on: then everything is looked at."""
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
        """The follower is told with the next answer; that is no reason to answer."""
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
