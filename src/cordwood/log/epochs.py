"""Leader epochs with their start offsets, which determine where a follower's log diverges from its leader's
(KIP-101)."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from cordwood.log.checkpoints.formats import CorruptCheckpoint, decode_table, encode_table

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs and start offsets, both increasing. `changed` means that the checkpoint file is out of date."""

    __slots__ = ("_entries", "changed")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries = list(entries)
        self.changed = False

    @property
    def entries(self) -> list[EpochStart]:
        return list(self._entries)

    @property
    def latest(self) -> int:
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Sets the epoch's first offset, and drops conflicting entries. A batch may have no epoch."""
        if epoch == UNDEFINED_EPOCH:
            return
        entries = self._entries
        if entries:
            latest, latest_start = entries[-1]
            if latest == epoch and latest_start <= start_offset:
                return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self.changed = True

    def prepend(self, earlier: "LeaderEpochs") -> None:
        """Adds epochs for the offsets before the first entry."""
        known = self._entries[0].epoch if self._entries else 2**31
        added = [entry for entry in earlier._entries if entry.epoch < known]
        if earlier.latest == known:
            # The first entry's epoch began earlier than recorded.
            added.append(earlier._entries[-1])
            del self._entries[0]
        self._entries[:0] = added
        self.changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest known epoch not above the requested one, its end offset); both -1 if unknown."""
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        known = self._entries[higher - 1].epoch if higher else epoch
        return known, self._entries[higher].start_offset

    def epoch_for(self, offset: int) -> int:
        """The epoch in which an offset was written, or -1."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[after - 1].epoch if after else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Drops the epochs that began at `end_offset` or later."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drops the epochs that ended before `start_offset`; the epoch that contains it now begins there."""
        keep = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if keep > 0 or (keep == 0 and self._entries[0].start_offset != start_offset):
            self._entries[: keep + 1] = [EpochStart(self._entries[keep].epoch, start_offset)]
            self.changed = True

    def clear(self) -> None:
        self.changed = self.changed or bool(self._entries)
        self._entries.clear()

    def encode(self) -> bytes:
        return encode_table(f"{epoch} {start_offset}" for epoch, start_offset in self._entries)


def decode_epochs(path: str, data: bytes) -> LeaderEpochs:
    entries: list[EpochStart] = []
    for epoch, start_offset in decode_table(path, data, 2):
        if not epoch.isdigit():
            raise CorruptCheckpoint(f"{path}: {epoch!r} is not a valid leader epoch")
        entry = EpochStart(int(epoch), int(start_offset))
        if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset < entries[-1].start_offset):
            raise CorruptCheckpoint(f"{path}: {entry} follows {entries[-1]}")
        entries.append(entry)
    return LeaderEpochs(entries)
