"""Following the leaders of partitions: one fetcher for each broker that leads some, or `num.replica.fetchers` of them.

A fetcher fetches, appends, and fetches again: the next fetch tells the leader this replica's position. One fetch is in
flight at a time; its partitions are kept in a fetch session, so that only changes are sent.

A leader that has nothing to send keeps a fetch waiting. A new partition, or one to be fetched from another offset,
should not wait for that: the session's next request then goes out over a second connection, and supersedes the one that
waits. A Cordwood leader answers that one at once, so that its connection is free again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from cordwood.log.dirs.directory import TopicPartition
from cordwood.net.peers.exceptions import PeerError
from cordwood.net.peers.peer import Peer
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .fetch_session import FetchSession, Key
from .follower import AskOffsets, ConnectionFailed, Fetched, FetchPosition, LeaderOffsets
from .partition import Partition
from .throttle import ReplicationThrottle

_log = logging.getLogger(__name__)

_LATEST, _EARLIEST = -1, -2
# With the replica's broker epoch, which fences fetches of an earlier start (KIP-903).
_REPLICA_STATE_SINCE = 15
# A fetch that the leader has not answered by then waits there for records.
_PARKED_S = 0.003
# After a failed request; the connection has its own, longer back-off.
_RETRY_S = 0.02


class FetcherSettings(NamedTuple):
    """Kafka's `replica.fetch.*` and `replica.socket.timeout.ms`."""

    broker_id: int
    max_wait_ms: int
    min_bytes: int
    partition_max_bytes: int
    response_max_bytes: int
    timeout_ms: int


class Reachability(Protocol):
    """Hears which leaders can be fetched from; both methods are called again and again."""

    def lost(self, broker_id: int) -> None: ...

    def regained(self, broker_id: int) -> None: ...


class Fetcher:
    """Follows partitions that one broker leads. `broker_epoch` is that of this broker's registration; `disk_failed` is
    called for a directory that cannot be written, `reachability` after each fetch."""

    def __init__(
        self,
        leader_id: int,
        settings: FetcherSettings,
        broker_epoch: Callable[[], int],
        new_peer: Callable[[], Peer],
        clock: Clock,
        throttle: ReplicationThrottle,
        disk_failed: Callable[[DiskError], None],
        reachability: Reachability,
    ) -> None:
        self.leader_id = leader_id
        self._throttle = throttle
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._disk_failed = disk_failed
        self._reachability = reachability
        self._partitions: dict[Key, Partition] = {}
        self._session = FetchSession(settings.partition_max_bytes)
        # Partitions whose position may differ from the session's.
        self._unsettled: dict[Key, None] = {}
        # Partitions in back-off or throttled, and until when.
        self._backing_off: dict[Key, int] = {}
        self._loop = asyncio.get_running_loop()
        # The time when changes that are not in the fetch in flight must be sent.
        self._wake_timer: asyncio.Handle | None = None
        self._wake_due_s = 0.0
        # Counts the requests; the latest is in flight, or there is none.
        self._request_number = 0
        self._is_in_flight = False
        # The response to a superseded request was dropped.
        self._has_missed_answer = False
        self._is_due = asyncio.Event()
        self._offsets_peer = new_peer()
        self._offset_tasks: set[asyncio.Task[None]] = set()
        self._peers = [new_peer(), new_peer()]
        self._tasks = [self._loop.create_task(self._fetch_on(peer)) for peer in self._peers]

    # Partitions

    @property
    def is_idle(self) -> bool:
        return not self._partitions

    def follow(self, partition: Partition) -> None:
        """Also called when something has changed for a partition that is followed already."""
        key = (partition.topic_id, partition.index)
        self._partitions[key] = partition
        partition.when_flushed(self._flushed)
        held_up_ms = self._throttle.resumes_in_ms
        position = self._position(partition, self._clock.now_ms(), held_up_ms)
        if position != self._session.positions.get(key) or self._is_held_up(partition, held_up_ms):
            self._unsettled[key] = None
            self._wake()

    def _flushed(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        if self._partitions.get(key) is partition and key not in self._session.positions:
            self._unsettled[key] = None
            self._wake()

    def leave(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        self._partitions.pop(key, None)
        self._backing_off.pop(key, None)
        self._unsettled[key] = None

    def move(self, address: Address | None) -> None:
        for peer in (*self._peers, self._offsets_peer):
            peer.move(address)

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition behind its leader."""
        followers = (partition.follower for partition in self._partitions.values())
        return max((follower.lag or 0 for follower in followers if follower is not None), default=0)

    async def stop(self) -> None:
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        tasks = [*self._tasks, *self._offset_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in (*self._peers, self._offsets_peer):
            await peer.close()

    # Fetching

    async def _fetch_on(self, peer: Peer) -> None:
        """Sends over one of the two connections, until the other one supersedes a request that waits."""
        while True:
            await self._is_due.wait()
            if not self._is_due.is_set():
                # The other one is at it.
                continue
            while await self._fetch(peer):
                pass

    async def _fetch(self, peer: Peer) -> bool:
        """False if there is nothing to send, or the other connection has taken over."""
        self._is_due.clear()
        self._settle()
        if self._session.is_empty:
            self._is_in_flight = False
            return False
        self._request_number += 1
        number = self._request_number
        self._is_in_flight = True
        is_opening = self._session.is_opening
        request = self._request(0 if is_opening else self._settings.max_wait_ms)
        self._session.fill(request)
        try:
            response = await peer.send(request, self._settings.timeout_ms, at_least=_REPLICA_STATE_SINCE)
        except PeerError as error:
            _log.debug("Cannot fetch from broker %d: %s", self.leader_id, error)
            self._reachability.lost(self.leader_id)
            return await self._pause(number, max(peer.backoff_s, _RETRY_S))
        self._reachability.regained(self.leader_id)
        if number != self._request_number:
            # The leader takes an answer without an error for known. It is not looked at: its positions may not be ours
            # any more.
            self._has_missed_answer |= response.error_code == ErrorCode.NONE
            return False
        if not self._session.answered(response):
            error_code = ErrorCode(response.error_code)
            _log.debug("Broker %d has not answered a fetch: %s", self.leader_id, error_code.name)
            return not is_opening or await self._pause(number, _RETRY_S)
        self._take(response)
        if self._has_missed_answer:
            self._has_missed_answer = False
            self._session.reset()
        return True

    async def _pause(self, number: int, seconds: float) -> bool:
        """Waits before everything is requested again; False if the other connection has taken over."""
        if number == self._request_number:
            self._session.reset()
            await asyncio.sleep(seconds)
        return number == self._request_number

    def _request(self, max_wait_ms: int) -> FetchRequest:
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.broker_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
        )

    # Requests

    def _settle(self) -> None:
        """Updates the session to the partitions' positions. The clock is read once: a throttle that ends between two
        readings would neither allow a fetch nor give a time for it."""
        now_ms, held_up_ms = self._clock.now_ms(), self._throttle.resumes_in_ms
        over = [key for key, resumes_ms in self._backing_off.items() if resumes_ms <= now_ms]
        for key in (*self._unsettled, *over):
            partition = self._partitions.get(key)
            position = None if partition is None else self._position(partition, now_ms, held_up_ms)
            if position is not None:
                self._backing_off.pop(key, None)
                self._session.want(key, position)
                continue
            self._session.forget(key)
            resumes_ms = 0 if partition is None else self._resumes_ms(partition, now_ms, held_up_ms)
            if resumes_ms > now_ms:
                self._backing_off[key] = resumes_ms
            else:
                self._backing_off.pop(key, None)
        self._unsettled.clear()
        if self._backing_off:
            self._wake(max(0, min(self._backing_off.values()) - now_ms) / 1000)

    def _position(self, partition: Partition, now_ms: int, held_up_ms: int) -> FetchPosition | None:
        follower = partition.follower
        if follower is None or partition.awaits_flush or self._is_held_up(partition, held_up_ms):
            return None
        return follower.next_fetch(now_ms)

    def _is_held_up(self, partition: Partition, held_up_ms: int) -> bool:
        """`held_up_ms` is the throttle's `resumes_in_ms`."""
        follower = partition.follower
        return held_up_ms > 0 and partition.is_follower_throttled and follower is not None and follower.lag != 0

    def _resumes_ms(self, partition: Partition, now_ms: int, held_up_ms: int) -> int:
        """The time when a partition that backs off or is throttled may be fetched again."""
        follower = partition.follower
        if follower is None:
            return 0
        if self._is_held_up(partition, held_up_ms):
            return max(follower.resumes_ms, now_ms + held_up_ms)
        return follower.resumes_ms

    def _wake(self, delay_s: float = 0.0) -> None:
        """Schedules a request, soon or after a delay: with the next fetch if the one in flight is answered by then,
        ahead of its answer otherwise."""
        due_s = self._loop.time() + delay_s
        if self._wake_timer is not None:
            if self._wake_due_s <= due_s + _PARKED_S:
                return
            self._wake_timer.cancel()
            self._wake_timer = None
        if delay_s == 0 and not self._is_in_flight:
            self._is_due.set()
        else:
            # Kept here: uvloop's handle of a time that has passed by now has no `when`.
            self._wake_due_s = due_s + _PARKED_S
            self._wake_timer = self._loop.call_at(self._wake_due_s, self._woken)

    def _woken(self) -> None:
        self._wake_timer = None
        now_ms = self._clock.now_ms()
        if self._unsettled or any(resumes_ms <= now_ms for resumes_ms in self._backing_off.values()):
            self._is_due.set()
        elif self._backing_off:
            self._wake(max(0, min(self._backing_off.values()) - now_ms) / 1000)

    # Responses

    def _take(self, response: FetchResponse) -> None:
        wants_offsets: list[tuple[Partition, AskOffsets]] = []
        for topic in response.responses:
            topic_id = topic.topic_id
            for answer in topic.partitions:
                key = (topic_id, answer.partition_index)
                partition, asked = self._partitions.get(key), self._session.positions.get(key)
                if partition is None or asked is None:
                    # It is followed no longer.
                    continue
                if answer.records and partition.is_follower_throttled:
                    self._throttle.record(len(answer.records))
                effect = self._step(partition, _fetched(asked, answer))
                if effect is not None:
                    wants_offsets.append((partition, effect))
                self._unsettled[key] = None
        if wants_offsets:
            task = self._loop.create_task(self._ask_offsets(wants_offsets))
            self._offset_tasks.add(task)
            task.add_done_callback(self._offset_tasks.discard)

    def _step(self, partition: Partition, event: Fetched | LeaderOffsets | ConnectionFailed) -> AskOffsets | None:
        try:
            return partition.step(event)
        except DiskError as error:
            self._disk_failed(error)
            return None

    async def _ask_offsets(self, wanted: list[tuple[Partition, AskOffsets]]) -> None:
        """Requests the start and end of the leader's logs, for replicas out of their range."""
        try:
            starts = await self._list_offsets(wanted, _EARLIEST)
            ends = await self._list_offsets(wanted, _LATEST)
        except PeerError as error:
            _log.debug("Cannot list offsets on broker %d: %s", self.leader_id, error)
            starts = ends = {}
        for partition, effect in wanted:
            place = (partition.topic, partition.index)
            start, end = starts.get(place), ends.get(place)
            if start is None or end is None:
                self._step(partition, ConnectionFailed())
            else:
                error_code = start[0] if start[0] is not ErrorCode.NONE else end[0]
                self._step(partition, LeaderOffsets(effect.leader_epoch, error_code, start[1], end[1]))
            if self._partitions.get((partition.topic_id, partition.index)) is partition:
                self._unsettled[partition.topic_id, partition.index] = None
                self._wake()

    async def _list_offsets(
        self, wanted: Iterable[tuple[Partition, AskOffsets]], timestamp: int
    ) -> dict[TopicPartition, tuple[ErrorCode, int]]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, effect in wanted:
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.index, current_leader_epoch=effect.leader_epoch, timestamp=timestamp
                )
            )
        request = ListOffsetsRequest(replica_id=self._settings.broker_id, topics=list(topics.values()))
        response = await self._offsets_peer.send(request, self._settings.timeout_ms)
        return {
            (topic.name, answer.partition_index): (ErrorCode(answer.error_code), answer.offset)
            for topic in response.topics
            for answer in topic.partitions
        }


def _fetched(asked: FetchPosition, answer: PartitionData) -> Fetched:
    parting, records = answer.diverging_epoch, answer.records
    assert records is None or isinstance(records, bytes | bytearray | memoryview)
    return Fetched(
        asked,
        ErrorCode(answer.error_code),
        answer.high_watermark,
        answer.log_start_offset,
        records or b"",
        (parting.epoch, parting.end_offset) if parting.epoch >= 0 else None,
    )
