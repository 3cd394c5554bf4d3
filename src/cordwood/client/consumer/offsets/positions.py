"""The state of a partition in a consumer: its position, and how to find it; sans-IO.

    INITIALIZING ──what the group committed──> FETCHING
         │ nothing committed                    │   ▲
         ▼                                      │   │ the leader's log holds what was read
     RESETTING ──what the leader says──> FETCHING ──> VALIDATING      (a new leader, KIP-320)
         ▲                                                │
         └──────────────── it was cut off ────────────────┘

`seek` leads to FETCHING from anywhere, `reset` to RESETTING.
"""

from enum import Enum

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.offsets.reset_strategy import NO_RESET, ResetStrategy
from cordwood.client.errors import ClientError

UNKNOWN = -1


class Phase(Enum):
    INITIALIZING = "initializing"
    RESETTING = "resetting"
    VALIDATING = "validating"
    FETCHING = "fetching"


class PartitionState:
    """Owned by the subscription; changed by methods only, except for log facts that brokers report."""

    __slots__ = (
        "awaits_listener",
        "empty_from",
        "empty_until",
        "epoch",
        "error",
        "failures",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "not_before_s",
        "offset",
        "partition",
        "paused",
        "phase",
        "preferred_replica",
        "preferred_until_s",
        "reset_strategy",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.phase = Phase.INITIALIZING
        self.reset_strategy: ResetStrategy = NO_RESET
        self.offset = UNKNOWN
        """The offset of the next record for the application."""
        self.epoch = UNKNOWN
        """The leader epoch of the record before it, if known."""
        self.fetch_offset = UNKNOWN
        """The next offset to fetch: ahead of `offset` by what is buffered."""
        self.leader_epoch = UNKNOWN
        """The leader epoch against whose log the position was last validated."""
        self.paused = False
        self.awaits_listener = False
        """The application's listener has yet to be told about the partition, and may seek in it."""
        self.error: ClientError | None = None
        """For the application's next poll; nothing is fetched until it was raised."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        # A range without records, as reported by a broker: compaction leaves such ranges, even at the end of a log.
        self.empty_from = UNKNOWN
        self.empty_until = UNKNOWN
        self.preferred_replica: int | None = None
        self.preferred_until_s = 0.0
        self.not_before_s = 0.0
        self.failures = 0

    def __repr__(self) -> str:
        return f"PartitionState({self.partition}, {self.phase.value}, offset={self.offset}, epoch={self.epoch})"

    @property
    def has_position(self) -> bool:
        return self.offset != UNKNOWN and self.phase in (Phase.FETCHING, Phase.VALIDATING)

    @property
    def is_consumable(self) -> bool:
        """True if buffered records may be returned to the application."""
        return self.phase is Phase.FETCHING and not self.paused and not self.awaits_listener

    def is_fetchable(self, now_s: float) -> bool:
        return self.is_consumable and self.error is None and now_s >= self.not_before_s

    def is_waiting_for(self, phase: Phase, now_s: float) -> bool:
        return self.phase is phase and self.error is None and now_s >= self.not_before_s

    # ---- position

    def seek(self, offset: int, epoch: int = UNKNOWN, leader_epoch: int = UNKNOWN) -> None:
        """With an epoch, the position is validated against the leader's log before anything is fetched, unless the
        leader in `leader_epoch` has just reported it."""
        self.phase = Phase.FETCHING
        self.offset = self.fetch_offset = offset
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.error = None
        self._try_at_once()

    def reset(self, strategy: ResetStrategy) -> None:
        self.phase = Phase.RESETTING
        self.reset_strategy = strategy
        self.error = None
        self.preferred_replica = None
        self._try_at_once()

    def advance(self, offset: int, epoch: int) -> None:
        """The application has received everything before `offset`."""
        self.offset = offset
        self.epoch = epoch

    # ---- the leader

    def observe_leader(self, leader_epoch: int) -> bool:
        """Returns whether the position must be validated against a new leader's log.

        An epoch lower than before belongs to a recreated topic: information from lagging brokers is dropped earlier
        (`Cluster`).
        """
        if self.phase is not Phase.FETCHING or leader_epoch == self.leader_epoch:
            return False
        self.leader_epoch = leader_epoch
        # Another log may have records where the old one had none.
        self.empty_from = self.empty_until = UNKNOWN
        if self.epoch == UNKNOWN:
            return False
        self.phase = Phase.VALIDATING
        # Drop buffered records of the old leader's log, and fetch them again.
        self.fetch_offset = self.offset
        self._try_at_once()
        return True

    def validated(self) -> None:
        self.phase = Phase.FETCHING
        # Another thread may be about to mark one more as taken.
        self.fetch_offset = self.offset
        self._try_at_once()

    # ---- the nearest replica (KIP-392)

    def prefer(self, replica: int, until_s: float) -> None:
        self.preferred_replica = replica
        self.preferred_until_s = until_s

    def preferred(self, now_s: float) -> int | None:
        if self.preferred_replica is not None and now_s >= self.preferred_until_s:
            # Ask the leader again now and then: there may be a nearer one.
            self.preferred_replica = None
        return self.preferred_replica

    def forget_preferred(self) -> bool:
        """Returns whether there was a preferred replica."""
        had = self.preferred_replica is not None
        self.preferred_replica = None
        return had

    # ---- errors

    def rest_until(self, not_before_s: float) -> None:
        self.failures += 1
        self.not_before_s = not_before_s

    def fail(self, error: ClientError) -> None:
        self.error = error

    def take_error(self) -> ClientError | None:
        error, self.error = self.error, None
        return error

    def _try_at_once(self) -> None:
        self.failures = 0
        self.not_before_s = 0.0

    # ---- end of the log

    def found_nothing(self, *, read_committed: bool) -> None:
        """A broker has found no readable record from `fetch_offset` on."""
        end = self.readable_end(read_committed=read_committed)
        if end is not None:
            self.empty_from, self.empty_until = self.fetch_offset, end

    def lag(self, *, read_committed: bool) -> int | None:
        end = self.readable_end(read_committed=read_committed)
        if end is None or not self.has_position:
            return None
        is_in_gap = self.empty_from != UNKNOWN and self.empty_from <= self.offset
        return max(0, end - (max(self.offset, self.empty_until) if is_in_gap else self.offset))

    def readable_end(self, *, read_committed: bool) -> int | None:
        """As of the last response."""
        return self.last_stable_offset if read_committed else self.high_watermark
