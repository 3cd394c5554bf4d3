"""A partition's follower, sans-IO: its next fetch, and the effects of the answer.

    follower = Follower(log, backoff_ms)
    follower.step(LeaderChanged(leader_epoch), now_ms)
    fetch = follower.next_fetch(now_ms)             # goes into the next Fetch to the leader; None: not now
    for effect in follower.step(Fetched(fetch, …), now_ms):
        …                                           # performed at once and in order, before the next call

A follower fetches from the end of its log, and sends the last fetched epoch. A leader whose log differs there
answers with the point where the two diverge, and the follower truncates (KIP-595, KIP-101, KIP-279). Where the leader
has no such offset at all, the follower asks for the leader's offsets: it restarts at the start of the leader's log, or,
after an unclean election, goes back to where the leader's log ends.

An error holds up this partition only: shortly at first, since a leader may be a moment behind in its metadata, and
twice as long with each further error, up to `replica.fetch.backoff.ms`.
"""

from enum import Enum
from typing import NamedTuple, Protocol

from cordwood.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from cordwood.runtime.disk import Buffer
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode


class FollowedLog(Protocol):
    """The facts about a log that a follower needs. The log changes through effects only."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...


class FetchPosition(NamedTuple):
    """A partition of a Fetch request."""

    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int


# Events


class Fetched(NamedTuple):
    """The leader's answer for the partition."""

    asked: FetchPosition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNDEFINED_OFFSET
    log_start_offset: int = UNDEFINED_OFFSET
    records: Buffer = b""
    # (epoch, end offset) in the leader's log, where the two logs diverge.
    diverging: tuple[int, int] | None = None


class LeaderOffsets(NamedTuple):
    """The answer to `AskOffsets`."""

    leader_epoch: int
    error: ErrorCode = ErrorCode.NONE
    log_start_offset: int = UNDEFINED_OFFSET
    end_offset: int = UNDEFINED_OFFSET


class AppendRefused(NamedTuple):
    """`Append` failed: the batches are damaged, or don't follow the log's end."""

    refusal: Refusal


class ConnectionFailed(NamedTuple):
    """The leader could not be asked."""


class LeaderChanged(NamedTuple):
    leader_epoch: int


Event = Fetched | LeaderOffsets | AppendRefused | ConnectionFailed | LeaderChanged


# Effects


class Append(NamedTuple):
    """Batches of an epoch above `leader_epoch` are left out: they are another leader's, and will be fetched from it."""

    records: Buffer
    leader_epoch: int


class Truncate(NamedTuple):
    offset: int


class StartAt(NamedTuple):
    """Empties the log, to continue at an offset."""

    offset: int


class SetHighWatermark(NamedTuple):
    """The leader's; the log's own end limits it. To be done after `Append`."""

    offset: int


class AdvanceStart(NamedTuple):
    offset: int


class AskOffsets(NamedTuple):
    """ListOffsets for the leader's log start and end, answered with `LeaderOffsets`."""

    leader_epoch: int


Effect = Append | Truncate | StartAt | SetHighWatermark | AdvanceStart | AskOffsets


_FIRST_BACKOFF_MS = 20
_MOST_DOUBLINGS = 16


class FollowerMode(Enum):
    FETCHING = "fetching"
    ASKING_OFFSETS = "asking offsets"
    # The leader's epoch is newer than this broker's metadata: wait for the metadata.
    FENCED = "fenced"


class Follower:
    """Follows one leader epoch after the other."""

    __slots__ = ("_backoff_ms", "_failures", "_leader_epoch", "_leader_high_watermark", "_log", "mode", "resumes_ms")

    def __init__(self, log: FollowedLog, backoff_ms: int) -> None:
        self.mode = FollowerMode.FENCED
        # When the back-off after an error ends.
        self.resumes_ms = 0
        self._log = log
        self._backoff_ms = backoff_ms
        # Since the last answer without an error.
        self._failures = 0
        self._leader_epoch = UNDEFINED_EPOCH
        self._leader_high_watermark: int | None = None

    @property
    def lag(self) -> int | None:
        """The lag behind the leader's high watermark as of its last answer; None before the first one."""
        if self._leader_high_watermark is None:
            return None
        return max(0, self._leader_high_watermark - self._log.end_offset)

    def next_fetch(self, now_ms: int) -> FetchPosition | None:
        if self.mode is not FollowerMode.FETCHING or now_ms < self.resumes_ms:
            return None
        log = self._log
        return FetchPosition(log.end_offset, log.latest_epoch, self._leader_epoch, log.start_offset)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Fetched():
                return self._fetched(event, now_ms)
            case LeaderOffsets():
                return self._offsets(event, now_ms)
            case LeaderChanged(leader_epoch):
                return self._leader_changed(leader_epoch)
            case AppendRefused() | ConnectionFailed():
                return self._back_off(now_ms)

    def _leader_changed(self, leader_epoch: int) -> list[Effect]:
        if leader_epoch <= self._leader_epoch:
            return []
        self._leader_epoch = leader_epoch
        self.mode = FollowerMode.FETCHING
        self.resumes_ms = 0
        self._failures = 0
        if self._log.latest_epoch == UNDEFINED_EPOCH and self._log.end_offset > self._log.high_watermark:
            # Batches from before KIP-101 have no epoch to compare: only committed records are certain.
            return [Truncate(self._log.high_watermark)]
        return []

    def _fetched(self, event: Fetched, now_ms: int) -> list[Effect]:
        log, asked = self._log, event.asked
        if self.mode is not FollowerMode.FETCHING or asked.current_leader_epoch != self._leader_epoch:
            # It was asked before a change of leader.
            return []
        if asked.fetch_offset != log.end_offset:
            return self._fetched_late(event)
        if event.error is not ErrorCode.NONE:
            return self._failed(event.error, now_ms)
        self._failures = 0
        if event.diverging is not None:
            # Watermarks are left alone until the next fetch, which finds the log truncated.
            return [Truncate(self._truncation_offset(*event.diverging))]
        effects: list[Effect] = []
        if event.records:
            effects.append(Append(event.records, self._leader_epoch))
        self._leader_high_watermark = event.high_watermark
        effects.append(SetHighWatermark(event.high_watermark))
        if event.log_start_offset > log.start_offset:
            effects.append(AdvanceStart(event.log_start_offset))
        return effects

    def _fetched_late(self, event: Fetched) -> list[Effect]:
        """The log has been truncated since the request, or another fetch has appended more. In the latter case the
        watermark counts: a leader sends it only once in a fetch session."""
        is_behind = event.asked.fetch_offset < self._log.end_offset
        if event.error is not ErrorCode.NONE or event.diverging is not None or not is_behind:
            return []
        return [SetHighWatermark(max(event.high_watermark, self._log.high_watermark))]

    def _truncation_offset(self, epoch: int, end_offset: int) -> int:
        """The offset to truncate to, given the largest epoch that both may share and its end in the leader's log."""
        log = self._log
        if end_offset == UNDEFINED_OFFSET:
            # The leader has no epoch that old: only committed records are certain.
            return log.high_watermark
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == UNDEFINED_EPOCH:
            return min(end_offset, log.end_offset)
        if own_epoch != epoch:
            # The leader's epoch is unknown here: go back to the largest one below it, and compare again.
            return min(own_end, log.end_offset)
        return min(own_end, end_offset, log.end_offset)

    def _failed(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.mode = FollowerMode.ASKING_OFFSETS
            return [AskOffsets(self._leader_epoch)]
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.mode = FollowerMode.FENCED
            return []
        return self._back_off(now_ms)

    def _offsets(self, event: LeaderOffsets, now_ms: int) -> list[Effect]:
        if self.mode is not FollowerMode.ASKING_OFFSETS or event.leader_epoch != self._leader_epoch:
            return []
        self.mode = FollowerMode.FETCHING
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            self.mode = FollowerMode.FENCED
            return []
        if event.error is not ErrorCode.NONE:
            return self._back_off(now_ms)
        end_offset = self._log.end_offset
        if event.end_offset < end_offset:
            # An unclean election: records missing on the new leader are lost.
            return [Truncate(event.end_offset)]
        if event.log_start_offset > end_offset:
            # The leader has deleted the records in between.
            return [StartAt(event.log_start_offset)]
        return []

    def _back_off(self, now_ms: int) -> list[Effect]:
        if self.mode is FollowerMode.ASKING_OFFSETS:
            # The next fetch will fail as the last one did, and offsets be asked for again.
            self.mode = FollowerMode.FETCHING
        self.resumes_ms = now_ms + min(self._backoff_ms, _FIRST_BACKOFF_MS << min(self._failures, _MOST_DOUBLINGS))
        self._failures += 1
        return []
