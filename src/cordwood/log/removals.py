"""The second step of deletions: removes renamed files after the delay (file.delete.delay.ms)."""

import heapq
import logging
from dataclasses import dataclass

from cordwood.runtime.disk import Disk, File

from .files import is_partition_file
from .steps import Steps

logger = logging.getLogger(__name__)

# Files per job of a thread; unlinking a large file takes tens of milliseconds.
_FILES_PER_JOB = 64


@dataclass(slots=True, eq=False)
class _Doomed:
    path: str
    # Discarded before the removal, so that pending reads raise FileGone.
    file: File | None
    # True for a partition's directory with all its files.
    is_partition: bool
    is_off: bool = False

    def discard(self) -> None:
        self.is_off = True
        if self.file is not None:
            self.file.discard()


class Removals:
    """Pending removals of one log directory, or of a log without one."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: list[tuple[int, int, _Doomed]] = []
        self._added = 0
        # Queued removals, by directory and path.
        self._waiting: dict[str, dict[str, _Doomed]] = {}
        # Removals in progress in a thread.
        self._under_way: set[str] = set()

    @property
    def next_due_ms(self) -> int | None:
        """The time of the next removal; None if there is none."""
        while self._queue and self._queue[0][2].is_off:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def add(self, due_ms: int, path: str, file: File | None = None, *, is_partition: bool = False) -> None:
        """If the path is already queued, it was overwritten by a rename: pending reads of the old file raise
        FileGone."""
        doomed = _Doomed(path, file, is_partition)
        siblings = self._waiting.setdefault(_directory_of(path), {})
        if path in siblings:
            siblings[path].discard()
        if path in self._under_way and file is not None:
            # A thread may remove it at any moment.
            file.discard()
        siblings[path] = doomed
        self._added += 1
        heapq.heappush(self._queue, (due_ms, self._added, doomed))

    def forget(self, directory: str) -> None:
        """The directory is about to be renamed, with its files."""
        for doomed in self._waiting.pop(directory, {}).values():
            doomed.discard()

    def purging(self, now_ms: int | None) -> Steps[None]:
        """Removes the files that are due (None: all files, but no partitions, which the next start finds again)."""
        while batch := self._take(now_ms):
            paths = {doomed.path for doomed in batch}
            self._under_way |= paths
            disk = self._disk.another()

            def remove(batch: list[_Doomed] = batch, disk: Disk = disk) -> None:
                if any(doomed.is_partition for doomed in batch):
                    # The new name must be durable before the files are removed: a crash must not bring back half a
                    # partition.
                    disk.sync_directory()
                for doomed in batch:
                    (remove_partition if doomed.is_partition else _remove_file)(disk, doomed.path)
                disk.close()

            yield remove
            self._under_way -= paths

    def _take(self, now_ms: int | None) -> list[_Doomed]:
        batch: list[_Doomed] = []
        partitions = []
        while len(batch) < _FILES_PER_JOB and (due_ms := self.next_due_ms) is not None:
            if now_ms is not None and due_ms > now_ms:
                break
            entry = heapq.heappop(self._queue)
            doomed = entry[2]
            if now_ms is None and doomed.is_partition:
                partitions.append(entry)
                continue
            directory = _directory_of(doomed.path)
            del self._waiting[directory][doomed.path]
            if not self._waiting[directory]:
                del self._waiting[directory]
            doomed.discard()
            batch.append(doomed)
        for entry in partitions:
            heapq.heappush(self._queue, entry)
        return batch


def remove_partition(disk: Disk, path: str) -> bool:
    """Removes a partition's directory with the files that Cordwood or Kafka wrote. Other files are kept, with the
    directory; returns False in that case."""
    for entry in disk.list(path):
        if not entry.is_directory and is_partition_file(entry.name):
            disk.remove(f"{path}/{entry.name}")
    if disk.remove_directory(path):
        return True
    others = ", ".join(entry.name for entry in disk.list(path))
    logger.warning("Keeping %s/%s: it holds files that are not a partition's: %s", disk.root, path, others)
    return False


def _remove_file(disk: Disk, path: str) -> None:
    disk.remove(path)


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]
