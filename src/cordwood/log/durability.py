"""Tracks which part of a log is on stable storage, and flushes the rest."""

from collections.abc import Callable
from dataclasses import dataclass

from cordwood.log.idempotence.snapshots import ProducerSnapshots
from cordwood.log.storage.index import Place
from cordwood.log.storage.segment import Segment
from cordwood.log.storage.segments import Segments

from .config import LogConfig
from .epochs import LeaderEpochs
from .files import LEADER_EPOCHS, PARTITION_METADATA

# A flush holds a descriptor for each of its files, so many sealed segments take several flushes.
_SEGMENTS_PER_FLUSH = 16


@dataclass(frozen=True, slots=True)
class FlushJob:
    """Runs in any thread; `Log.end_flush` then records the result."""

    # The recovery point after the flush: the end of the log, unless there are too many segments for one flush.
    end_offset: int
    is_whole: bool
    now_ms: int
    sealed: tuple[Segment, ...]
    truncations: int
    names_changed: int
    run: Callable[[], None]


class Durability:
    """Belongs to one log, which reports its file operations here. `recovery_point`, `last_flush_ms` and `truncations`
    are public."""

    __slots__ = (
        "_epochs",
        "_flushing_to",
        "_is_new",
        "_names_changed",
        "_names_synced",
        "_place",
        "_segments",
        "_snapshots",
        "_synced_truncations",
        "_unsynced",
        "last_flush_ms",
        "recovery_point",
        "truncations",
    )

    def __init__(
        self,
        place: Place,
        segments: Segments,
        epochs: LeaderEpochs,
        snapshots: ProducerSnapshots,
        recovery_point: int,
        now_ms: int,
        *,
        is_new: bool,
    ) -> None:
        self._place = place
        self._segments = segments
        self._epochs = epochs
        self._snapshots = snapshots
        # Everything below it is on stable storage.
        self.recovery_point = recovery_point
        # The recovery point once all flushes in progress have ended.
        self._flushing_to = recovery_point
        self.last_flush_ms = now_ms
        # This process created the log's directory; the first flush makes it durable too.
        self._is_new = is_new
        # Sealed since the last flush, or not known to be synced since the log was opened.
        self._unsynced = [segment for segment in segments.from_floor(recovery_point) if segment is not segments.active]
        # Number of file creations, renames and removals since the log was opened, and how many are durable; opening
        # counts as one. Syncing a directory costs as much as syncing a file.
        self._names_changed, self._names_synced = 1, 0
        # A truncation is durable once its segment was synced.
        self.truncations = self._synced_truncations = 0

    # Flushing

    def flush_due(self, end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Returns whether a log that ends there should be flushed now."""
        unflushed = end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        if self._unsynced or unflushed >= config.flush_messages:
            return True
        return now_ms - self.last_flush_ms >= config.flush_ms

    def begin_flush(self, end_offset: int, now_ms: int, *, all_indexes: bool) -> FlushJob:
        """The log ends there, and has files.

        Includes everything that opening the log trusts below the recovery point: indexes, snapshots, leader epochs. The
        active segment's indexes are not included, because it is scanned from its start after a crash.
        """
        disk, directory, active = self._place.disk, self._place.directory, self._segments.active
        sealed = self._unsynced[:_SEGMENTS_PER_FLUSH]
        is_whole = len(sealed) == len(self._unsynced)
        if not is_whole:
            end_offset = self._unsynced[len(sealed)].base_offset
        logs = [segment.file for segment in sealed]
        if is_whole:
            logs.append(active.file)
        others = self._snapshots.unsynced_files(end_offset)
        for segment in [*sealed, *([active] if is_whole and all_indexes else [])]:
            others += segment.index_files()
        self.write_epochs()
        if self._is_new:
            others.append(disk.open(f"{directory}/{PARTITION_METADATA}"))
        directories = []
        if others or self._names_changed > self._names_synced:
            directories = [directory, ""] if self._is_new else [directory]
        run = disk.sync_job([*logs, *others], directories)
        for file in others:
            file.close()
        self._flushing_to = max(self._flushing_to, end_offset)
        return FlushJob(end_offset, is_whole, now_ms, tuple(sealed), self.truncations, self._names_changed, run)

    def end_flush(self, job: FlushJob) -> None:
        self._is_new = False
        self._names_synced = max(self._names_synced, job.names_changed)
        if job.truncations != self.truncations:
            # The log may have been rewritten at these offsets since.
            return
        self.recovery_point = max(self.recovery_point, job.end_offset)
        if job.is_whole:
            self.last_flush_ms = job.now_ms
            # Only the active segment can have been truncated without a sync.
            self._synced_truncations = max(self._synced_truncations, job.truncations)
        self._unsynced = [segment for segment in self._unsynced if segment not in job.sealed]

    def synced_to(self, end_offset: int) -> None:
        """The owner has synced everything, as it does at shutdown."""
        self.recovery_point = end_offset

    # Leader epochs

    def write_epochs(self) -> None:
        if self._epochs.changed:
            self._place.disk.write_file(self._epochs_path, self._epochs.encode())
            self._epochs.changed = False

    def install_epochs(self, draft: str) -> None:
        """Installs a file with the leader epochs; it is durable with the next flush."""
        self._place.disk.rename(draft, self._epochs_path)
        self._names_changed += 1
        self._epochs.changed = False

    @property
    def _epochs_path(self) -> str:
        return f"{self._place.directory}/{LEADER_EPOCHS}"

    # Events of the log

    def names_changed(self) -> None:
        """Files were created, renamed or removed, or are about to be."""
        self._names_changed += 1

    def sealed(self, segment: Segment, end_offset: int) -> None:
        """The active segment was sealed at the current end of the log; the next one is created after this call, which
        may have to sync first."""
        self._unsynced.append(segment)
        if self._flushing_to >= end_offset or self.truncations > self._synced_truncations:
            # Recovery will not check this segment again, so everything it trusts must be durable first. And a lost
            # truncation must not bring back offsets that conflict with the next segment's.
            segment.file.sync()
            for file in segment.index_files():
                file.sync()
                file.close()
            self._synced_truncations = self.truncations

    def retired(self, segment: Segment) -> None:
        """The segment is no longer part of the log, and its files are renamed."""
        self._names_changed += 1
        self._forget(segment)

    def truncated(self) -> None:
        """Invalidates flushes in progress. Snapshots of the truncated part are removed too, and must not come back."""
        self.truncations += 1
        self._names_changed += 1

    def cut_to(self, end_offset: int) -> None:
        """The log ends there now, in a segment that is active (again, if it was sealed)."""
        self._forget(self._segments.active)
        self.recovery_point = min(self.recovery_point, end_offset)
        self._flushing_to = self.recovery_point

    def _forget(self, segment: Segment) -> None:
        if segment in self._unsynced:
            self._unsynced.remove(segment)
