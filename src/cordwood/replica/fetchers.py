"""The fetchers of a broker: which partition is followed with which, as the metadata changes.

There are up to `num.replica.fetchers` for each broker that leads partitions; a partition always has the same one."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable

from cordwood.log.dirs.directory import TopicPartition
from cordwood.net.peers.peer import Peer
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Address

from .fetcher import Fetcher, FetcherSettings, Reachability
from .partition import Partition
from .replicas import Replicas
from .throttle import ReplicationThrottle

# The key of a partition that is not followed.
_NONE = (-1, 0)


class Fetchers:
    """`address_of` returns a broker's address for other brokers; None while it is unknown."""

    def __init__(
        self,
        settings: FetcherSettings,
        count: int,
        replicas: Replicas,
        broker_epoch: Callable[[], int],
        address_of: Callable[[int], Address | None],
        new_peer: Callable[[], Peer],
        clock: Clock,
        throttle: ReplicationThrottle,
        reachability: Reachability,
    ) -> None:
        """`throttle` limits the fetching of throttled replicas. `reachability` records which leaders can be fetched
        from."""
        self._settings = settings
        self._count = count
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._address_of = address_of
        self._new_peer = new_peer
        self._clock = clock
        self._throttle = throttle
        self._reachability = reachability
        # By leader, and by number among those that follow it.
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        # The fetcher of a partition, with the partition object: a topic may be deleted and recreated.
        self._followed: dict[TopicPartition, tuple[Fetcher, Partition]] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_running = False

    def start(self) -> None:
        """Updates the followed partitions from the current metadata."""
        self._is_running = True
        self.changed((partition.topic, partition.index) for partition in self._replicas)

    @property
    def max_lag(self) -> int:
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    def changed(self, partitions: Iterable[TopicPartition]) -> None:
        """The leaders or the replicas of these partitions have changed."""
        if not self._is_running:
            return
        for place in partitions:
            self._follow(place, self._replicas.get(*place))
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                del self._fetchers[key]
                self._end(fetcher)

    def brokers_changed(self) -> None:
        """The addresses of brokers may have changed."""
        for (leader_id, _), fetcher in self._fetchers.items():
            fetcher.move(self._address_of(leader_id))

    def resize(self, count: int) -> None:
        """`num.replica.fetchers` has changed."""
        if count != self._count:
            self._count = count
            self.changed(list(self._followed))

    def _follow(self, place: TopicPartition, partition: Partition | None) -> None:
        key = self._key(partition)
        known = self._followed.pop(place, None)
        if known is not None and (known[0] is not self._fetchers.get(key) or known[1] is not partition):
            known[0].leave(known[1])
        if partition is None or key == _NONE:
            return
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            leader_id = key[0]
            fetcher = self._fetchers[key] = Fetcher(
                leader_id,
                self._settings,
                self._broker_epoch,
                self._new_peer,
                self._clock,
                self._throttle,
                self._replicas.disk_failed,
                self._reachability,
            )
            fetcher.move(self._address_of(leader_id))
        fetcher.follow(partition)
        self._followed[place] = (fetcher, partition)

    def _key(self, partition: Partition | None) -> tuple[int, int]:
        if partition is None or partition.follower is None:
            return _NONE
        number = (zlib.crc32(partition.topic.encode()) + partition.index) % self._count
        return partition.state.leader, number

    def _end(self, fetcher: Fetcher) -> None:
        task = asyncio.get_running_loop().create_task(fetcher.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        self._is_running = False
        for fetcher in self._fetchers.values():
            self._end(fetcher)
        self._fetchers.clear()
        self._followed.clear()
        await asyncio.gather(*self._stopping)
