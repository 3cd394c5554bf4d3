"""Producer snapshots: the state of `Producers` at an offset, in a file named after it."""

from bisect import bisect_right
from collections.abc import Iterable

from cordwood.log.files import DELETED, PRODUCER_SNAPSHOT, file_name
from cordwood.runtime.disk import Disk, File
from cordwood.wire.checksum import crc32c
from cordwood.wire.codec import decode, encode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages.storage_records.producer_snapshot import ProducerEntry, ProducerSnapshot

from .producers import Producer, ProducerBatch, Producers

_VERSION = 1
# int16 version, uint32 CRC of everything that follows.
_CRC_POSITION = 2
_ENTRIES_POSITION = 6


class CorruptSnapshot(Exception):
    """The file is torn or damaged; an older one and the log are used instead."""


class ProducerSnapshots:
    """The snapshot files of one partition, by offset."""

    __slots__ = ("_directory", "_disk", "_unsynced", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)
        self._unsynced: list[int] = []

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def write(self, producers: Producers) -> None:
        """Writes a snapshot at the producers' end offset, if there is none yet (none at 0, as in Kafka). It is durable
        after the next sync."""
        offset = producers.end_offset
        if offset <= (self.latest or 0):
            return
        file = self._disk.create(self.path(offset))
        file.append(encode_snapshot(producers.by_id.values()))
        file.close()
        self.offsets.append(offset)
        self._unsynced.append(offset)

    def unsynced_files(self, end_offset: int) -> list[File]:
        """The unsynced snapshots up to an offset."""
        due = [offset for offset in self._unsynced if offset <= end_offset]
        self._unsynced = self._unsynced[len(due) :]
        return [self._disk.open(self.path(offset)) for offset in due]

    def load_latest(self, start_offset: int, end_offset: int) -> tuple[int, list[Producer]] | None:
        """The newest readable snapshot between two offsets; unreadable ones are removed."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, end_offset)]):
            if not _is_of_use(offset, start_offset, end_offset):
                break
            try:
                return offset, decode_snapshot(self.path(offset), self._disk.read_file(self.path(offset)) or b"")
            except CorruptSnapshot:
                self.remove(offset)
        return None

    def trim(self, start_offset: int, end_offset: int) -> None:
        """Removes snapshots that are useless for a log between these offsets."""
        for offset in list(self.offsets):
            if not _is_of_use(offset, start_offset, end_offset):
                self.remove(offset)

    def remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
        self._forget(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """The first of two deletion steps; returns the path to remove later, if there was a snapshot."""
        if offset not in self.offsets:
            return None
        self._forget(offset)
        path = self.path(offset) + DELETED
        self._disk.rename(self.path(offset), path)
        return path

    def _forget(self, offset: int) -> None:
        self.offsets.remove(offset)
        if offset in self._unsynced:
            self._unsynced.remove(offset)

    def path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, PRODUCER_SNAPSHOT)}"


def _is_of_use(offset: int, start_offset: int, end_offset: int) -> bool:
    """A snapshot below the log start says nothing about its records; one at the very end is still useful. So is one at
    the start, for producers whose records are all deleted: Kafka removes it, and forgets them after a crash."""
    return start_offset <= offset <= end_offset or offset == end_offset


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    snapshot = ProducerSnapshot(
        producer_entries=[
            ProducerEntry(
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_offset=producer.batches[-1].last_offset if producer.batches else -1,
                offset_delta=producer.batches[-1].offset_delta if producer.batches else 0,
                timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=producer.txn_first_offset,
            )
            # Kafka's order is that of a hash map. Sorting gives the same bytes for the same state.
            for producer in sorted(producers, key=lambda producer: producer.producer_id)
        ]
    )
    data = bytearray(_VERSION.to_bytes(2, "big") + encode(snapshot, _VERSION))
    crc = crc32c(memoryview(data)[_ENTRIES_POSITION:])
    data[_CRC_POSITION:_ENTRIES_POSITION] = crc.to_bytes(4, "big")
    return bytes(data)


def decode_snapshot(path: str, data: bytes) -> list[Producer]:
    version = int.from_bytes(data[:_CRC_POSITION], "big")
    if version != _VERSION:
        raise CorruptSnapshot(f"{path}: version {version}")
    try:
        snapshot = decode(ProducerSnapshot, _VERSION, data[_CRC_POSITION:])
    except DecodeError as error:
        raise CorruptSnapshot(f"{path}: {error}") from error
    if snapshot.crc != crc32c(data[_ENTRIES_POSITION:]):
        raise CorruptSnapshot(f"{path}: checksum mismatch")
    return [_producer(entry) for entry in snapshot.producer_entries]


def _producer(entry: ProducerEntry) -> Producer:
    batches = (
        [ProducerBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)]
        if entry.last_offset >= 0
        else []
    )
    return Producer(
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.timestamp,
        max(entry.current_txn_first_offset, -1),
        batches,
    )
