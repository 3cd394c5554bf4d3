"""One partition on this broker, which leads it or follows its leader: appends, and the produces and fetches that wait
for it to move on.

Two offsets describe its progress. `written` is the counted end of this replica's own log: all of it, unless
`flush.messages` demands a flush; then only what is on stable storage. A produce with acks=1 waits for it. The high
watermark is the end of what all in-sync replicas have (see `leader`). A produce with acks=all waits for it, and no
reader sees more.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cordwood.config.topic import TopicConfig
from cordwood.log.epochs import UNDEFINED_EPOCH
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Appended, Log
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from . import follower as following
from .follower import AskOffsets, Follower, LeaderChanged
from .leader import (
    Effect,
    FollowerFetched,
    FollowerSeen,
    IsrAnswered,
    LagChecked,
    Leader,
    MetadataChanged,
    ProposeIsr,
    RegistrationChanged,
    ReplicationSettings,
)
from .traffic import TopicTraffic

_log = logging.getLogger(__name__)

ACKS_ALL = -1


class Watcher(Protocol):
    """A reader that waits for more: a parked Fetch."""

    @property
    def is_follower(self) -> bool:
        """A follower is woken by each append, a consumer only when the high watermark moves."""

    def woken(self, partition: "Partition") -> None:
        """The high watermark or the leader has changed, or there is more for followers. It must not append to the
        partition."""

    def high_watermark_moved(self, partition: "Partition") -> None:
        """Only followers get it, and they are not woken for it."""

    def expire(self) -> None:
        """The node is stopping: answer with the available data."""


class Replication(NamedTuple):
    """Dependencies of a broker's partitions for replication."""

    lag_time_max_ms: int
    # After an error of a follower.
    backoff_ms: int
    # Has a change of the in-sync set decided by the controller.
    propose_isr: Callable[["Partition", ProposeIsr], None]


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
            # A retry refers to an earlier append.
            self._waiting = deque(sorted([*waiting, (offset, then)], key=lambda entry: entry[0]))
        else:
            waiting.append((offset, then))

    def passed(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answers the requests that wait for an offset below."""
        while self._waiting and self._waiting[0][0] < offset:
            self._waiting.popleft()[1](error)

    def fail(self, error: ErrorCode) -> None:
        while self._waiting:
            self._waiting.popleft()[1](error)


class Partition:
    """`state` is the partition in the metadata. The log is None while its directory is offline."""

    __slots__ = (
        "_active",
        "_clock",
        "_committed_acks",
        "_flush_listener",
        "_followers",
        "_is_in_sync",
        "_led",
        "_replication",
        "_request_flush",
        "_start_listeners",
        "_watchers",
        "_written_acks",
        "broker_id",
        "config",
        "follower",
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
        replication: Replication,
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
        # While it follows another one.
        self.follower: Follower | None = None
        # Called when a follower's appends have been flushed.
        self._flush_listener: Callable[[Partition], None] | None = None
        self._clock = clock
        self._replication = replication
        # None unless traffic is counted.
        self.traffic: TopicTraffic | None = None
        self._request_flush = request_flush
        self._active = None if log is None else log.active
        self._watchers: dict[Watcher, None] = {}
        # Parked fetches of followers.
        self._followers: dict[Watcher, None] = {}
        self._start_listeners: list[Callable[[], None]] = []
        self._written_acks = PendingAcks()
        self._committed_acks = PendingAcks()
        self._lead_or_follow()

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self.broker_id

    def _lead_or_follow(self) -> None:
        """Applies the metadata and the configuration."""
        log = self._led = self.log if self.is_leader else None
        if log is None:
            self.leader = None
            self._is_in_sync = False
            self._follow()
            return
        self.follower = None
        now_ms = self._clock.now_ms()
        settings = ReplicationSettings(self.config.min_insync_replicas, self._replication.lag_time_max_ms)
        if self.leader is None:
            self.written = log.high_watermark
            self.leader = Leader(self.broker_id, self.state, settings, log.end_offset, log.high_watermark, now_ms)
        else:
            self.leader.step(MetadataChanged(self.state, settings, log.end_offset), now_ms)
        self._is_in_sync = not self.leader.is_under_min_isr

    def _follow(self) -> None:
        if self.log is None or self.state.leader < 0:
            self.follower = None
            return
        if self.follower is None:
            self.follower = Follower(self.log, self._replication.backoff_ms)
            if self.awaits_flush:
                # No fetch until the records of an earlier start, or of this broker's leadership, are flushed.
                self._request_flush(self)
        self.step(LeaderChanged(self.state.leader_epoch))

    # Queries

    @property
    def is_leader_throttled(self) -> bool:
        """True if bytes sent to its followers count for `leader.replication.throttled.rate`."""
        return self._is_named(self.config.leader_replication_throttled_replicas)

    @property
    def is_follower_throttled(self) -> bool:
        """True if bytes fetched by this follower count for `follower.replication.throttled.rate`."""
        return self._is_named(self.config.follower_replication_throttled_replicas)

    def _is_named(self, replicas: tuple[str, ...]) -> bool:
        return bool(replicas) and ("*" in replicas or f"{self.index}:{self.broker_id}" in replicas)

    def leader_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, if this broker leads the partition at the epoch that the client believes in; Refusal otherwise."""
        return self.readable_log(current_leader_epoch, leader_only=True)

    def readable_log(self, current_leader_epoch: int, *, leader_only: bool) -> Log:
        """The log, if the epoch is right that the client believes in; Refusal otherwise. Consumers may read from a
        follower too (KIP-392)."""
        epoch = self.state.leader_epoch
        if current_leader_epoch not in (UNDEFINED_EPOCH, epoch):
            if current_leader_epoch < epoch:
                raise Refusal(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"leader epoch {current_leader_epoch} of {self} is outdated; the current one is {epoch}",
                )
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"leader epoch {current_leader_epoch} of {self} is not known here; {epoch} is the latest",
            )
        if self.state.leader != self.broker_id and (leader_only or self.log is None):
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.broker_id} does not lead {self}")
        if self.log is None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self} is offline")
        return self.log

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """The highest log start of all live replicas; -1 while one of them is unknown."""
        log = self.leader_log()
        starts = [] if self.leader is None else self.leader.followers.items()
        return min((log.start_offset, *(each.start_offset for replica, each in starts if is_alive(replica))))

    # Its leader epochs: one that nothing was written in yet begins at the end of the log. The log itself takes note of
    # an epoch with its first batch, so that a new leader costs no write for each of its partitions.

    def leader_epoch_start(self, log: Log) -> int:
        """The start offset of the current epoch."""
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
        """Writes one batch as the leader. `acknowledge` reports when it is acknowledged."""
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
        """Returns whether a produce that ends at `offset` may be acknowledged."""
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
        """Advances `written` and the high watermark, and answers the produces and fetches that waited for them."""
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
        if self._followers:
            self._wake_followers()

    def _move_high_watermark(self, log: Log, offset: int) -> None:
        log.advance_high_watermark(offset)
        self._committed_acks.passed(
            offset, ErrorCode.NONE if self._is_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )
        if self._watchers:
            self._wake()
        for follower in tuple(self._followers):
            follower.high_watermark_moved(self)

    # Its followers

    def follower_fetched(self, event: FollowerFetched, now_ms: int) -> None:
        """Counts a fetch of a follower, which has everything below its offset. Raises Refusal for one that must not
        count."""
        leader = self.leader
        if leader is None:
            return
        self._perform(leader.step(event, now_ms))
        if self._start_listeners:
            self._tell_of_starts()

    def follower_seen(self, event: FollowerSeen) -> None:
        if self.leader is not None:
            self.leader.step(event, event.seen_ms)

    def advance_start(self, offset: int) -> None:
        """DeleteRecords, on the leader. Followers are notified at once. Raises Refusal."""
        self.leader_log().advance_start(offset)
        self._wake_followers()

    def when_starts_change(self, then: Callable[[], None]) -> None:
        """`then` is called once, when a replica's log may begin elsewhere, or its replicas or leader have changed."""
        self._start_listeners.append(then)

    def _tell_of_starts(self) -> None:
        listeners, self._start_listeners = self._start_listeners, []
        for listener in listeners:
            listener()

    def broker_changed(self, event: RegistrationChanged) -> None:
        """Returns the partition as a possible follower."""
        if self.leader is not None and event.replica in self.leader.followers:
            self._perform(self.leader.step(event, self._clock.now_ms()))
            self._tell_of_starts()

    def check_lag(self, now_ms: int) -> None:
        """Takes followers out of the in-sync set that have lagged for `replica.lag.time.max.ms`."""
        if self.leader is not None and self.leader.followers:
            self._perform(self.leader.step(LagChecked(), now_ms))

    def isr_answered(self, event: IsrAnswered) -> None:
        """The controller has answered a proposal."""
        if self.leader is not None:
            self._perform(self.leader.step(event, self._clock.now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        leader, log = self.leader, self._led
        assert leader is not None
        for effect in effects:
            if isinstance(effect, ProposeIsr):
                self._replication.propose_isr(self, effect)
        if log is not None and leader.high_watermark > log.high_watermark:
            self._move_high_watermark(log, leader.high_watermark)

    # Its leader

    def step(self, event: following.Event) -> AskOffsets | None:
        """Passes an event to the follower, and performs the effects. Raises DiskError. `AskOffsets` is left to the
        caller."""
        follower, log, now_ms = self.follower, self.log, self._clock.now_ms()
        if follower is None or log is None:
            return None
        for effect in follower.step(event, now_ms):
            match effect:
                case following.Append(records, leader_epoch):
                    try:
                        log.append_as_follower(records, now_ms, leader_epoch)
                    except Refusal as refusal:
                        # The rest of the answer depends on the failed append.
                        _log.warning("%s: cannot append the leader's batches, fetching again: %s", self, refusal)
                        follower.step(following.AppendRefused(refusal), now_ms)
                        return None
                    if log.flush_due(now_ms) or log.segments.active is not self._active:
                        self._active = log.segments.active
                        self._request_flush(self)
                case following.Truncate(offset):
                    self._warn_of_truncation(log, offset)
                    log.truncate_to(offset, now_ms)
                case following.StartAt(offset):
                    self._warn_of_start_anew(log, offset)
                    log.truncate_fully(offset, now_ms)
                case following.SetHighWatermark(offset):
                    if offset != log.high_watermark:
                        log.advance_high_watermark(offset)
                        if self._watchers:
                            self._wake()
                case following.AdvanceStart(offset):
                    log.advance_start(min(offset, log.high_watermark))
                case AskOffsets():
                    return effect
        return None

    def _warn_of_truncation(self, log: Log, offset: int) -> None:
        """Warns about records that are discarded although they were not deleted."""
        if offset >= log.end_offset:
            return
        if offset >= log.high_watermark:
            reason = "they were never committed"
        else:
            reason = (
                f"those before {log.high_watermark} were committed, and are lost by an unclean election "
                "(unclean.leader.election.enable, or cordwood leader elect --unclean)"
            )
        _log.warning(
            "%s: discarding offsets %d to %d, which leader %d of epoch %d does not have; %s",
            self,
            offset,
            log.end_offset - 1,
            self.state.leader,
            self.state.leader_epoch,
            reason,
        )

    def _warn_of_start_anew(self, log: Log, offset: int) -> None:
        if log.end_offset > log.start_offset:
            _log.warning(
                "%s: discarding this replica's offsets %d to %d; the log of leader %d begins at %d only, and this "
                "replica fetches again from there",
                self,
                log.start_offset,
                log.end_offset - 1,
                self.state.leader,
                offset,
            )

    def when_flushed(self, listener: Callable[["Partition"], None]) -> None:
        """Calls the listener, in place of any earlier one, after each flush of a log that follows."""
        self._flush_listener = listener

    def flushed(self) -> None:
        """Its log has been flushed, to wherever its recovery point is now, or counts by other rules."""
        if self._led is not None:
            self._advance(self._led, self._clock.now_ms())
        elif self._flush_listener is not None:
            self._flush_listener(self)

    @property
    def awaits_flush(self) -> bool:
        """A follower's fetch acknowledges its appends: where `flush.messages` demands a flush, the fetch waits for
        it."""
        log = self.log
        return log is not None and log.end_offset - log.durability.recovery_point >= log.config.flush_messages

    def update(self, state: PartitionState, config: TopicConfig) -> None:
        """Applies a metadata change."""
        was_leader = self.is_leader
        self.state = state
        self.configure(config)
        if was_leader and not self.is_leader:
            self._let_go(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._start_listeners:
            self._tell_of_starts()

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
        self.follower = None
        self.configure(self.config)

    def go_offline(self) -> None:
        """Its directory has failed."""
        self._lose_log(ErrorCode.KAFKA_STORAGE_ERROR)

    def removed(self, error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """`error` is for pending produces: after a reassignment other brokers continue the partition, and may have the
        batches."""
        self._lose_log(error)

    def _lose_log(self, error: ErrorCode) -> None:
        self.log = self._led = self.leader = self.follower = None
        self._let_go(error)

    def _let_go(self, error: ErrorCode) -> None:
        self._written_acks.fail(error)
        self._committed_acks.fail(error)
        self._wake()
        self._wake_followers()
        self._tell_of_starts()

    # Waiting readers

    def watch(self, watcher: Watcher) -> None:
        (self._followers if watcher.is_follower else self._watchers)[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        (self._followers if watcher.is_follower else self._watchers).pop(watcher, None)

    def expire_watchers(self) -> None:
        for watcher in (*self._watchers, *self._followers):
            watcher.expire()

    def _wake(self) -> None:
        for watcher in tuple(self._watchers):
            watcher.woken(self)

    def _wake_followers(self) -> None:
        for watcher in tuple(self._followers):
            watcher.woken(self)
