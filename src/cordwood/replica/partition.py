"""One partition on this broker: appends as its leader, its high watermark, and who waits for it to move.

The high watermark follows what this replica counts as written. That is all of the log, unless `flush.messages` asks for
a flush by now: then it is what is on stable storage, so that neither an acknowledgement nor a reader runs ahead of it.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from cordwood.config.topic import TopicConfig
from cordwood.log.epochs import UNDEFINED_EPOCH
from cordwood.log.log import Appended, Log
from cordwood.log.producers import AppendOrigin
from cordwood.metadata.image import Partition as PartitionState
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

ACKS_ALL = -1


class Watcher(Protocol):
    """Someone who waits for more to read: a parked Fetch."""

    def woken(self, partition: "Partition") -> None:
        """The high watermark or the leader has changed. It must not append to the partition."""

    def expire(self) -> None:
        """The node stops: it is to be answered with what there is."""


class Partition:
    """`state` is what the metadata says of it. Its log is None while its directory is offline."""

    __slots__ = (
        "_acknowledgements",
        "_active",
        "_is_in_sync",
        "_led",
        "_request_flush",
        "_watchers",
        "broker_id",
        "config",
        "index",
        "log",
        "state",
        "topic",
        "topic_id",
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
        request_flush: Callable[["Partition"], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.state = state
        self.log = log
        self.config = config
        self._request_flush = request_flush
        self._active = None if log is None else log.active
        self._note_standing()
        self._watchers: dict[Watcher, None] = {}
        # (offset, called when the high watermark has passed it or the partition is led by another), offsets ascending.
        self._acknowledgements: deque[tuple[int, Callable[[ErrorCode], None]]] = deque()

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self.broker_id

    def _note_standing(self) -> None:
        """What every append asks of its state and its configuration."""
        self._led = self.log if self.is_leader else None
        # With fewer replicas than wanted, all of them will do (KIP-966 has it so too).
        wanted = min(self.config.min_insync_replicas, len(self.state.replicas))
        self._is_in_sync = len(self.state.isr) >= wanted

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
            self._advance(log)
            active = log.segments.active
            if active is not self._active:
                # As in Kafka, a sealed segment is flushed soon, so that a crash costs no walk over it.
                self._active = active
                self._request_flush(self)
        return appended

    def acknowledge(self, offset: int, then: Callable[[ErrorCode], None]) -> bool:
        """True if what ends at `offset` is acknowledged already; otherwise `then` is called when it is."""
        assert self.log is not None
        if offset < self.log.high_watermark:
            return True
        if self._acknowledgements and self._acknowledgements[-1][0] > offset:
            # A retry asks about what was appended earlier.
            waiting = sorted([*self._acknowledgements, (offset, then)], key=lambda entry: entry[0])
            self._acknowledgements = deque(waiting)
        else:
            self._acknowledgements.append((offset, then))
        return False

    # Moving on

    def _advance(self, log: Log) -> None:
        """Moves the high watermark as far as it may go now, and tells who waits for it."""
        end = log.end_offset
        if end - log.durability.recovery_point >= log.config.flush_messages:
            self._request_flush(self)
            end = log.durability.recovery_point
        if end <= log.high_watermark:
            return
        log.advance_high_watermark(end)
        acknowledgements = self._acknowledgements
        while acknowledgements and acknowledgements[0][0] < end:
            acknowledgements.popleft()[1](ErrorCode.NONE)
        if self._watchers:
            self._wake()

    def flushed(self) -> None:
        """Its log has been flushed, to wherever its recovery point is now."""
        if self._led is not None:
            self._advance(self._led)

    def update(self, state: PartitionState, config: TopicConfig) -> None:
        """What the metadata says of it has changed."""
        was_leader = self.is_leader
        self.state = state
        self.configure(config)
        if was_leader and not self.is_leader:
            self._let_go(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._led is not None:
            self._advance(self._led)

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self._note_standing()
        if self.log is not None:
            self.log.config = config.log

    def replace_log(self, log: Log) -> None:
        """It lies in another directory from here on."""
        self.log = log
        self._active = log.active
        self.configure(self.config)
        if self._led is not None:
            self._advance(self._led)

    def go_offline(self) -> None:
        """Its directory has failed."""
        self.log = self._led = None
        self._let_go(ErrorCode.KAFKA_STORAGE_ERROR)

    def removed(self) -> None:
        self.log = self._led = None
        self._let_go(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _let_go(self, error: ErrorCode) -> None:
        while self._acknowledgements:
            self._acknowledgements.popleft()[1](error)
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
