"""A log in memory for tests of the machine, with what a crash may leave of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cordwood.raft.log import EpochStart, OffsetAndEpoch
from cordwood.runtime.randomness import Random
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.control import ControlType, control_batch
from cordwood.wire.record import Buffer, Record
from cordwood.wire.records import encode_batch


@dataclass(frozen=True)
class StoredBatch:
    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


@dataclass(frozen=True)
class Content:
    start_offset: int = 0
    batches: tuple[StoredBatch, ...] = ()
    snapshots: Mapping[OffsetAndEpoch, bytes] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset


class MemoryLog:
    """See `RaftLog`. Writes are kept apart until they are flushed; a crash keeps any number of the oldest of them."""

    def __init__(self, content: Content | None = None) -> None:
        # The first is on stable storage, each of the others is one write later.
        self._versions = [content or Content()]
        self._flushed_writes = 0
        self._fetching: tuple[OffsetAndEpoch, bytes] | None = None

    @property
    def content(self) -> Content:
        return self._versions[-1]

    @property
    def start_offset(self) -> int:
        return self.content.start_offset

    @property
    def end_offset(self) -> int:
        return self.content.end_offset

    @property
    def epochs(self) -> Sequence[EpochStart]:
        starts: list[EpochStart] = []
        for batch in self.content.batches:
            if not starts or starts[-1].epoch < batch.epoch:
                starts.append(EpochStart(batch.epoch, batch.base_offset))
        return starts

    @property
    def snapshots(self) -> Mapping[OffsetAndEpoch, int]:
        return {snapshot_id: len(data) for snapshot_id, data in self.content.snapshots.items()}

    def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for batch in self.content.batches:
            if batch.next_offset > offset and (not data or len(data) + len(batch.data) <= max_bytes):
                data += batch.data
            elif data:
                break
        return data

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        return self.content.snapshots[snapshot_id][position : position + max_bytes]

    def append(self, batches: Buffer) -> None:
        new = []
        for position, header in batch_headers(batches):
            data = bytes(batches[position : position + header.size])
            new.append(StoredBatch(header.base_offset, header.next_offset, header.leader_epoch, data))
        assert new[0].base_offset == self.end_offset
        self._write(replace(self.content, batches=(*self.content.batches, *new)))

    def truncate(self, offset: int) -> None:
        kept = tuple(batch for batch in self.content.batches if batch.next_offset <= offset)
        self._write(replace(self.content, batches=kept))
        assert self.end_offset == offset, f"the log has no batch that ends at {offset}"

    def write_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer) -> None:
        before = self._fetching[1] if self._fetching is not None and position > 0 else b""
        assert len(before) == position
        self._fetching = (snapshot_id, before + bytes(data))

    def install_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        assert self._fetching is not None
        assert self._fetching[0] == snapshot_id
        self._write(Content(snapshot_id.offset, (), {snapshot_id: self._fetching[1]}))
        self.end_flush(self.begin_flush())
        self._fetching = None

    def _write(self, content: Content) -> None:
        self._versions.append(content)

    # The shell beside effects

    def begin_flush(self) -> int:
        """The number of the write up to which the flush will go."""
        return self._flushed_writes + len(self._versions) - 1

    def end_flush(self, last_write: int) -> None:
        """All writes up to that one are durable."""
        newly_flushed = max(last_write - self._flushed_writes, 0)
        del self._versions[:newly_flushed]
        self._flushed_writes += newly_flushed

    def add_snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes) -> None:
        """A snapshot of the state machine, durable at once."""
        self._versions = [
            replace(version, snapshots={**version.snapshots, snapshot_id: data}) for version in self._versions
        ]

    def clean(self, start_offset: int) -> list[OffsetAndEpoch]:
        """Deletes the snapshots before `start_offset` and the log below it; the ids of the deleted."""
        deleted = [snapshot_id for snapshot_id in self.content.snapshots if snapshot_id.offset < start_offset]
        self._versions = [_cleaned(version, start_offset) for version in self._versions]
        return deleted

    def crash(self, random: Random) -> None:
        kept = self._versions[random.below(len(self._versions))]
        newest = max(kept.snapshots, default=OffsetAndEpoch(0, 0))
        if kept.end_offset < newest.offset:
            # Opens such a log as the shell does.
            kept = Content(newest.offset, (), {newest: kept.snapshots[newest]})
        self._versions = [kept]
        self._fetching = None


def _cleaned(content: Content, start_offset: int) -> Content:
    if content.end_offset < start_offset:
        return content
    return Content(
        start_offset,
        tuple(batch for batch in content.batches if batch.next_offset > start_offset),
        {id: data for id, data in content.snapshots.items() if id.offset >= start_offset},
    )


def snapshot_data(control: Sequence[tuple[ControlType, bytes]], epoch: int, filling: bytes = b"") -> bytes:
    """A snapshot as far as the quorum reads it: its first batch. The filling makes it longer."""
    header = (ControlType.SNAPSHOT_HEADER, b"\0\0" + bytes(8) + b"\0")
    opening = control_batch([header, *control], base_offset=0, timestamp=0, leader_epoch=epoch)
    return bytes(opening + encode_batch([Record(1 + len(control), 0, None, filling)], leader_epoch=epoch))
