"""The replicated log as the machine knows it: where it starts and ends, its epochs and its snapshots.

`RaftLog` is the interface of the shell's log on disk: it is read once, when the machine is created, and then performs
the effects. `LogState` is the machine's own picture of it, kept up to date by the effects that the machine returns, so
that a step never reads the disk.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cordwood.wire.record import Buffer


class OffsetAndEpoch(NamedTuple):
    """A place in the metadata log, such as its end or a snapshot's: the next offset, and the epoch of the record before
    it."""

    offset: int
    epoch: int

    def is_behind(self, other: "OffsetAndEpoch") -> bool:
        """True if a log that ends here is less up to date than one that ends there (Raft 5.4.1)."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""Made by formatting: it names the first voters and is never sent to another replica."""


class Diverging(NamedTuple):
    """The follower's last epoch ends here on the leader; the follower has to truncate."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """The leader no longer has what the follower asks for; the follower has to fetch this snapshot."""

    id: OffsetAndEpoch


class EpochStart(NamedTuple):
    epoch: int
    offset: int


class RaftLog(Protocol):
    """The read side of the metadata log on disk, used to start a replica and to answer fetches. The shell writes to it
    as effects demand."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def epochs(self) -> Sequence[EpochStart]:
        """The leader epochs in the log, and the offset of the first record of each."""

    @property
    def snapshots(self) -> Mapping[OffsetAndEpoch, int]:
        """The complete snapshots and their sizes in bytes."""

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Whole batches from an offset on, whether committed or not; at least one if there is any."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> Buffer: ...


@dataclass(slots=True)
class LogState:
    start_offset: int = 0
    end_offset: int = 0
    # All below is on stable storage.
    flushed_offset: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    snapshots: dict[OffsetAndEpoch, int] = field(default_factory=dict)

    @classmethod
    def of(cls, log: RaftLog) -> "LogState":
        """The state of a log that was just opened: all that recovery found is on stable storage."""
        # A crash may have come before the snapshots were deleted that the log's start has passed: no log begins there.
        kept = (each for each in sorted(log.snapshots.items()) if each[0].offset >= log.start_offset)
        snapshots = dict(kept)
        return cls(log.start_offset, log.end_offset, log.end_offset, list(log.epochs), snapshots)

    @property
    def last_epoch(self) -> int:
        if self.epochs:
            return self.epochs[-1].epoch
        latest = self.latest_snapshot
        return latest.epoch if latest is not None else 0

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return next(iter(self.snapshots), None)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The end of the largest epoch that is not above `epoch`."""
        if not self.epochs or epoch >= self.last_epoch:
            return self.end
        following = bisect_right(self.epochs, epoch, key=lambda start: start.epoch)
        end_offset = self.epochs[following].offset
        if following > 0:
            return OffsetAndEpoch(end_offset, self.epochs[following - 1].epoch)
        # Below all epochs of the log: it ends where the oldest snapshot does.
        earliest = self.earliest_snapshot
        if earliest is not None and earliest.offset == end_offset:
            return earliest
        return OffsetAndEpoch(end_offset, epoch)

    def validate(self, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
        """Checks a follower's end against this log; None if the follower's log is a prefix of it."""
        if offset == 0 and self.start_offset == 0:
            return None
        earliest, latest = self.earliest_snapshot, self.latest_snapshot
        if earliest is not None and latest is not None:
            is_below = offset < self.start_offset or epoch < earliest.epoch
            if is_below or (offset == self.start_offset and epoch != earliest.epoch):
                return NeedsSnapshot(latest)
        end = self.end_offset_for_epoch(epoch)
        return Diverging(end) if end.epoch != epoch or end.offset < offset else None

    def truncation_offset(self, diverging: OffsetAndEpoch) -> int:
        """The offset to truncate this log to, given the end of the leader's copy of its last epoch."""
        if diverging.epoch == 0:
            return min(diverging.offset, self.end_offset)
        end = self.end_offset_for_epoch(diverging.epoch)
        return min(end.offset, diverging.offset) if end.epoch == diverging.epoch else end.offset

    def appended(self, base_offset: int, end_offset: int, epoch: int) -> None:
        assert base_offset == self.end_offset < end_offset, (base_offset, self.end_offset, end_offset)
        assert epoch >= self.last_epoch, (epoch, self.last_epoch)
        if not self.epochs or self.epochs[-1].epoch < epoch:
            self.epochs.append(EpochStart(epoch, base_offset))
        self.end_offset = end_offset

    def truncated(self, offset: int) -> None:
        self.end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        while self.epochs and self.epochs[-1].offset >= offset:
            self.epochs.pop()

    def replaced_by_snapshot(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        self.snapshots = {snapshot_id: size}
        self.epochs = []
        self.start_offset = self.end_offset = self.flushed_offset = snapshot_id.offset

    def cleaned(self, start_offset: int, deleted: Sequence[OffsetAndEpoch]) -> None:
        """Records the deletion of the log below a snapshot's end and of earlier snapshots."""
        for snapshot_id in deleted:
            self.snapshots.pop(snapshot_id, None)
        assert start_offset == self.start_offset or any(kept.offset == start_offset for kept in self.snapshots)
        self.start_offset = start_offset
        while len(self.epochs) > 1 and self.epochs[1].offset <= start_offset:
            del self.epochs[0]
        if self.epochs and self.epochs[0].offset < start_offset:
            self.epochs[0] = EpochStart(self.epochs[0].epoch, start_offset)
