"""Where a consumer stands in one partition, and what it has to find out before it can read; sans-IO.

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
    """Owned by the subscription; each change is a method here, but for what brokers tell of the log."""

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
        """Of the next record for the application."""
        self.epoch = UNKNOWN
        """Of the leader that wrote the record before it, where that is known."""
        self.fetch_offset = UNKNOWN
        """The next offset to fetch: ahead of `offset` by what is buffered."""
        self.leader_epoch = UNKNOWN
        """Of the leader against whose log the position was last held."""
        self.paused = False
        self.awaits_listener = False
        """The application has yet to hear of the partition, and may seek in it."""
        self.error: ClientError | None = None
        """For the application's next poll; until it has heard, nothing is fetched."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        # A stretch without records, by a broker's answer: compaction leaves such, also at the end of a log.
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

    # ---- where to read

    def seek(self, offset: int, epoch: int = UNKNOWN, leader_epoch: int = UNKNOWN) -> None:
        """With an epoch the position is held against the leader's log before anything is fetched, unless a leader in
        `leader_epoch` has just told it."""
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
        """The application has been given all that comes before `offset`."""
        self.offset = offset
        self.epoch = epoch

    # ---- the leader

    def observe_leader(self, leader_epoch: int) -> bool:
        """Returns whether the position must be validated against a new leader's log.

        An epoch that is lower than before is that of a topic that was made anew: leaders that lag behind are not
        believed in the first place (`Cluster`).
        """
        if self.phase is not Phase.FETCHING or leader_epoch == self.leader_epoch:
            return False
        self.leader_epoch = leader_epoch
        # Another log may have records where the old one had none.
        self.empty_from = self.empty_until = UNKNOWN
        if self.epoch == UNKNOWN:
            return False
        self.phase = Phase.VALIDATING
        # What was fetched of the old leader's log and not read yet is fetched again.
        self.fetch_offset = self.offset
        self._try_at_once()
        return True

    def validated(self) -> None:
        self.phase = Phase.FETCHING
        # Another thread may have been about to say that it took one more.
        self.fetch_offset = self.offset
        self._try_at_once()

    # ---- the nearest replica (KIP-392)

    def prefer(self, replica: int, until_s: float) -> None:
        self.preferred_replica = replica
        self.preferred_until_s = until_s

    def preferred(self, now_s: float) -> int | None:
        if self.preferred_replica is not None and now_s >= self.preferred_until_s:
            # The leader is asked again now and then: there may be a nearer one.
            self.preferred_replica = None
        return self.preferred_replica

    def forget_preferred(self) -> bool:
        """Returns whether there was one."""
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

    # ---- what is left to read

    def found_nothing(self, *, read_committed: bool) -> None:
        """A broker has looked, and there is no record from `fetch_offset` on that could be read."""
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
        """By the last answer of its broker."""
        return self.last_stable_offset if read_committed else self.high_watermark
