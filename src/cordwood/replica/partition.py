"""One partition on this broker: appends as its leader, and the produces and fetches that wait for it to move on.

Two offsets tell how far it is. `written` is how far this replica's own log counts: all of it, unless `flush.messages`
asks for a flush by now; then only what is on stable storage. A produce with acks=1 waits for that. The high watermark
is what all replicas in sync have (see `leader`). A produce with acks=all waits for it, and no reader sees more.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from cordwood.config.topic import TopicConfig
from cordwood.log.epochs import UNDEFINED_EPOCH
from cordwood.log.log import Appended, Log
from cordwood.log.producers import AppendOrigin
from cordwood.metadata.image import Partition as PartitionState
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from .leader import Leader, MetadataChanged, ReplicationSettings, SettingsChanged
from .traffic import TopicTraffic

ACKS_ALL = -1


class Watcher(Protocol):
    """Someone who waits for more to read: a parked Fetch."""

    def woken(self, partition: "Partition") -> None:
        """The high watermark or the leader has changed. It must not append to the partition."""

    def expire(self) -> None:
        """The node stops: it is to be answered with what there is."""


class PendingAcks:
    """Callbacks of produces that wait until an offset is passed, the lowest offset first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # Made when it is needed: a node may have many partitions, and few with produces that wait.
        self._waiting: deque[tuple[int, Callable[[ErrorCode], None]]] | None = None

    def add(self, offset: int, then: Callable[[ErrorCode], None]) -> None:
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = deque()
        if waiting and waiting[-1][0] > offset:
            # A retry asks about what was appended earlier.
            self._waiting = deque(sorted([*waiting, (offset, then)], key=lambda entry: entry[0]))
        else:
            waiting.append((offset, then))

    def passed(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answers those that wait for an offset below."""
        while self._waiting and self._waiting[0][0] < offset:
            self._waiting.popleft()[1](error)

    def fail(self, error: ErrorCode) -> None:
        while self._waiting:
            self._waiting.popleft()[1](error)


class Partition:
    """`state` is what the metadata says of it. Its log is None while its directory is offline."""

    __slots__ = (
        "_active",
        "_clock",
        "_committed_acks",
        "_is_in_sync",
        "_lag_time_max_ms",
        "_led",
        "_request_flush",
        "_watchers",
        "_written_acks",
        "broker_id",
        "config",
        "index",
        "leader",
        "log",
        "state",
        "topic",
        "topic_id",
        "traffic",
        "written",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: Uuid,
        broker_id: int,
        state: PartitionState,
        log: Log | None,
        config: TopicConfig,
        clock: Clock,
        lag_time_max_ms: int,
        request_flush: Callable[["Partition"], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.state = state
        self.log = log
        self.config = config
        # This replica's own log counts up to here.
        self.written = 0 if log is None else log.high_watermark
        # While this broker leads the partition.
        self.leader: Leader | None = None
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        # None unless somebody wants it counted.
        self.traffic: TopicTraffic | None = None
        self._request_flush = request_flush
        self._active = None if log is None else log.active
        self._watchers: dict[Watcher, None] = {}
        self._written_acks = PendingAcks()
        self._committed_acks = PendingAcks()
        self._lead_or_follow()

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self.broker_id

    def _lead_or_follow(self) -> None:
        """Takes over what the metadata and the configuration say."""
        log = self._led = self.log if self.is_leader else None
        if log is None:
            self.leader = None
            self._is_in_sync = False
            return
        now_ms = self._clock.now_ms()
        settings = ReplicationSettings(self.config.min_insync_replicas, self._lag_time_max_ms)
        if self.leader is None:
            self.written = log.high_watermark
            self.leader = Leader(self.broker_id, self.state, settings, log.end_offset, log.high_watermark, now_ms)
        else:
            self.leader.step(MetadataChanged(self.state, log.end_offset), now_ms)
            self.leader.step(SettingsChanged(settings), now_ms)
        self._is_in_sync = not self.leader.is_under_min_isr

    # What may be asked of it

    def leader_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, if this broker leads the partition at the epoch that the client believes in; Refusal otherwise."""
        epoch = self.state.leader_epoch
        if current_leader_epoch not in (UNDEFINED_EPOCH, epoch):
            if current_leader_epoch < epoch:
                raise Refusal(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"leader epoch {current_leader_epoch} of {self} is over; it is {epoch} now",
                )
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"leader epoch {current_leader_epoch} of {self} is not known here; {epoch} is the latest",
            )
        if self.state.leader != self.broker_id:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.broker_id} does not lead {self}")
        if self.log is None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")
        return self.log

    # Its leader epochs: one that nothing was written in yet begins at the end of the log. The log itself takes note of
    # an epoch with its first batch, so that a new leader costs no write for each of its partitions.

    def leader_epoch_start(self, log: Log) -> int:
        """Where the present epoch begins."""
        if log.epochs.latest < self.state.leader_epoch:
            return log.end_offset
        return log.epochs.entries[-1].start_offset

    def end_offset_for_epoch(self, log: Log, epoch: int) -> tuple[int, int]:
        """(the largest epoch not above the one asked for, its end offset); both -1 when that is not known."""
        latest, current = log.epochs.latest, self.state.leader_epoch
        if latest >= current or epoch > current or epoch == UNDEFINED_EPOCH:
            return log.end_offset_for_epoch(epoch)
        if latest == UNDEFINED_EPOCH:
            return epoch, log.end_offset
        if epoch < latest:
            return log.end_offset_for_epoch(epoch)
        return (epoch if epoch == current else latest), log.end_offset

    # Appending

    def append(self, records: Buffer, acks: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT) -> Appended:
        """Writes one batch as the leader. Whether it is acknowledged is told by `acknowledge`."""
        log = self._led
        if log is None:
            log = self.leader_log()
        if acks == ACKS_ALL and not self._is_in_sync:
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(self.state.isr)} replicas in sync, and "
                f"min.insync.replicas={self.config.min_insync_replicas}",
            )
        appended = log.append_as_leader(records, self.state.leader_epoch, now_ms, origin)
        if not appended.is_duplicate:
            if self.traffic is not None:
                self.traffic.bytes_in += len(records)
                self.traffic.messages_in += appended.last_offset - appended.first_offset + 1
            self._advance(log, now_ms)
            active = log.segments.active
            if active is not self._active:
                # As in Kafka, a sealed segment is flushed soon, so that a crash costs no walk over it.
                self._active = active
                self._request_flush(self)
        return appended

    def is_acknowledged(self, offset: int, acks: int) -> bool:
        """Whether a produce that ends at `offset` may be answered."""
        if acks == ACKS_ALL:
            assert self.log is not None
            return offset < self.log.high_watermark
        return offset < self.written

    def acknowledge(self, offset: int, then: Callable[[ErrorCode], None], acks: int = ACKS_ALL) -> bool:
        """True if it may be answered already; otherwise `then` is called when it may, or when it has failed."""
        if self.is_acknowledged(offset, acks):
            return True
        (self._committed_acks if acks == ACKS_ALL else self._written_acks).add(offset, then)
        return False

    # Moving on

    def _advance(self, log: Log, now_ms: int) -> None:
        """Counts what has been appended or flushed, and answers the produces and fetches that it was missing to."""
        end = log.end_offset
        if end - log.durability.recovery_point >= log.config.flush_messages:
            self._request_flush(self)
            end = log.durability.recovery_point
        if end > self.written:
            self.written = end
            self._written_acks.passed(end)
        leader = self.leader
        assert leader is not None
        leader.written(self.written, now_ms)
        if leader.high_watermark > log.high_watermark:
            self._move_high_watermark(log, leader.high_watermark)

    def _move_high_watermark(self, log: Log, offset: int) -> None:
        log.advance_high_watermark(offset)
        self._committed_acks.passed(
            offset, ErrorCode.NONE if self._is_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )
        if self._watchers:
            self._wake()

    def flushed(self) -> None:
        """Its log has been flushed, to wherever its recovery point is now, or counts by other rules."""
        if self._led is not None:
            self._advance(self._led, self._clock.now_ms())

    def update(self, state: PartitionState, config: TopicConfig) -> None:
        """What the metadata says of it has changed."""
        was_leader = self.is_leader
        self.state = state
        self.configure(config)
        if was_leader and not self.is_leader:
            self._let_go(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        if self.log is not None:
            self.log.config = config.log
        self._lead_or_follow()
        self.flushed()

    def replace_log(self, log: Log) -> None:
        """It lies in another directory from here on."""
        self.log = log
        self._active = log.active
        self.configure(self.config)

    def go_offline(self) -> None:
        """Its directory has failed."""
        self._lose_log(ErrorCode.KAFKA_STORAGE_ERROR)

    def removed(self) -> None:
        self._lose_log(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _lose_log(self, error: ErrorCode) -> None:
        self.log = self._led = self.leader = None
        self._let_go(error)

    def _let_go(self, error: ErrorCode) -> None:
        self._written_acks.fail(error)
        self._committed_acks.fail(error)
        self._wake()

    # Waiting readers

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def expire_watchers(self) -> None:
        for watcher in tuple(self._watchers):
            watcher.expire()

    def _wake(self) -> None:
        for watcher in tuple(self._watchers):
            watcher.woken(self)
