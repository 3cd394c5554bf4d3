"""The snapshots of the metadata log on disk: `<offset>-<epoch>.checkpoint`, beside the log's segments."""

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from cordwood.log.config import MAX_INT64
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.metadata.image_records import image_records
from cordwood.runtime.disk import Disk, File
from cordwood.wire.record import Buffer

from .snapshot import (
    CHECKPOINT,
    QuorumVoters,
    Snapshot,
    decode_opening,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_name,
)

logger = logging.getLogger(__name__)

# A snapshot's header and the voters.
_OPENING_BYTES = 1 << 16
_UNFINISHED = ".part"


class SnapshotJob(NamedTuple):
    """Runs in any thread; `SnapshotFiles.written` then takes note of it."""

    id: OffsetAndEpoch
    last_timestamp_ms: int
    run: Callable[[], None]


class _Kept(NamedTuple):
    """Properties of a snapshot that are known without reading its records."""

    size: int
    last_timestamp_ms: int


class _Incoming(NamedTuple):
    """A snapshot that is being fetched from the leader."""

    id: OffsetAndEpoch
    file: File


class SnapshotFiles:
    def __init__(self, disk: Disk, directory: str) -> None:
        """Finds the complete snapshots, by name. Removes unfinished ones, ours or Kafka's."""
        self._disk = disk
        self._directory = directory
        self._incoming: _Incoming | None = None
        found: dict[OffsetAndEpoch, _Kept] = {}
        for entry in disk.list(directory):
            snapshot_id = parse_snapshot_name(entry.name)
            if snapshot_id is not None:
                found[snapshot_id] = self._look_at(snapshot_id, entry.size)
            elif CHECKPOINT in entry.name and entry.name.endswith((".tmp", _UNFINISHED, ".deleted")):
                disk.remove(f"{directory}/{entry.name}")
        # Oldest first.
        self._kept = dict(sorted(found.items()))

    def _look_at(self, snapshot_id: OffsetAndEpoch, size: int) -> _Kept:
        path = self.path(snapshot_id)
        file = self._disk.open(path, size)
        try:
            return _Kept(size, decode_opening(path, file.read(0, _OPENING_BYTES)).last_timestamp_ms)
        except InvalidMetadata as error:
            # Loading shows whether the node needs it. It does not age.
            logger.error("A metadata snapshot is damaged: %s", error)
            return _Kept(size, MAX_INT64)
        finally:
            file.close()

    def path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self._directory}/{snapshot_name(snapshot_id)}"

    @property
    def ids(self) -> list[OffsetAndEpoch]:
        """Oldest first."""
        return list(self._kept)

    @property
    def newest(self) -> OffsetAndEpoch | None:
        return next(reversed(self._kept), None)

    @property
    def sizes(self) -> Mapping[OffsetAndEpoch, int]:
        return {snapshot_id: kept.size for snapshot_id, kept in self._kept.items()}

    @property
    def total_size(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    # Reading

    def load(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        path = self.path(snapshot_id)
        data = self._disk.read_file(path)
        if data is None:
            raise InvalidMetadata(f"there is no {path}")
        return decode_snapshot(path, data)

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        file = self._disk.open(self.path(snapshot_id))
        try:
            return file.read(position, min(max_bytes, file.size - position))
        finally:
            file.close()

    def pass_over(self, snapshot_id: OffsetAndEpoch) -> None:
        """Skips a snapshot that cannot be read; its file stays."""
        del self._kept[snapshot_id]

    # Making

    def job(self, image: MetadataImage, quorum: QuorumVoters, now_ms: int) -> SnapshotJob:
        disk, path = self._disk.another(), self.path(image.covers)

        def run() -> None:
            data = encode_snapshot(
                image_records(image),
                metadata_version=image.metadata_version,
                epoch=image.covers.epoch,
                last_timestamp_ms=image.last_timestamp_ms,
                now_ms=now_ms,
                quorum=quorum,
            )
            disk.write_file(path, data)

        return SnapshotJob(image.covers, image.last_timestamp_ms, run)

    def written(self, snapshot_id: OffsetAndEpoch, last_timestamp_ms: int) -> int:
        """Takes note of a snapshot that was written; its size."""
        file = self._disk.open(self.path(snapshot_id))
        size = file.size
        file.close()
        self._kept[snapshot_id] = _Kept(size, last_timestamp_ms)
        return size

    # Fetching

    def write_piece(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer) -> None:
        path = f"{self.path(snapshot_id)}{_UNFINISHED}"
        if position == 0:
            self.discard(snapshot_id)
            if self._disk.exists(path):
                self._disk.remove(path)
            self._incoming = _Incoming(snapshot_id, self._disk.create(path))
        assert self._incoming is not None
        assert self._incoming.id == snapshot_id
        assert self._incoming.file.size == position
        self._incoming.file.append(data)

    def finish(self, snapshot_id: OffsetAndEpoch) -> None:
        """Makes the fetched snapshot durable, under its name."""
        assert self._incoming is not None
        assert self._incoming.id == snapshot_id
        file, self._incoming = self._incoming.file, None
        file.sync()
        file.rename(self.path(snapshot_id))
        file.close()
        self._disk.sync_directory(self._directory)
        size = self._disk.open(self.path(snapshot_id)).size
        self._kept[snapshot_id] = self._look_at(snapshot_id, size)

    def discard(self, snapshot_id: OffsetAndEpoch) -> None:
        """Gives up a snapshot that is being fetched."""
        if self._incoming is not None and self._incoming.id == snapshot_id:
            path = self._incoming.file.path
            self._incoming.file.close()
            self._incoming = None
            self._disk.remove(path)

    # Letting go

    def expired(self, log_bytes: int, max_bytes: int, max_ms: int, now_ms: int) -> Iterator[tuple[OffsetAndEpoch, int]]:
        """The snapshots that are to go by size or age, each with the offset at which the log may begin then. The newest
        always stays. `remove` is called for each before the next is looked at."""
        for snapshot_id, following in list(pairwise(self.ids)):
            is_too_much = 0 <= max_bytes < log_bytes + self.total_size
            if not is_too_much and not 0 <= max_ms < now_ms - self._kept[snapshot_id].last_timestamp_ms:
                break
            yield snapshot_id, following.offset

    def remove(self, snapshot_id: OffsetAndEpoch) -> None:
        self._disk.remove(self.path(snapshot_id))
        del self._kept[snapshot_id]
