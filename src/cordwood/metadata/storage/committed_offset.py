"""A file with the highest known committed offset of the metadata log.

Damage below it is never treated as an unfinished write. Kafka has no such file, and leaves unknown files alone.
"""

import logging
from collections.abc import Callable

from cordwood.log.checkpoints.formats import CorruptCheckpoint, read_offsets, write_offsets
from cordwood.log.dirs.contents import METADATA_PARTITION
from cordwood.runtime.disk import Disk

logger = logging.getLogger(__name__)

COMMITTED_OFFSET = "metadata-offset-checkpoint"


class CommittedOffset:
    """Grows. Not written before anything is committed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # As written by this object.
        self._recorded = 0

    @property
    def exists(self) -> bool:
        return self._disk.exists(COMMITTED_OFFSET)

    def begin(self, offset: int) -> None:
        """Writes the offset, replacing any earlier one, even a larger one."""
        self._recorded = -1
        self.record(offset)

    def record(self, offset: int) -> None:
        """Makes the offset durable."""
        job = self.recording(offset)
        if job is not None:
            job()

    def recording(self, offset: int) -> Callable[[], None] | None:
        """Returns `record` as a job for any thread; None if the offset was recorded before."""
        if offset <= self._recorded:
            return None
        disk = self._disk.another()

        def run() -> None:
            write_offsets(disk, COMMITTED_OFFSET, {METADATA_PARTITION: offset}, is_sealed=True)
            disk.close()
            self._recorded = offset

        return run


def recorded_offset(disk: Disk) -> int | None:
    """The last recorded committed offset; None if there is none."""
    try:
        return read_offsets(disk, COMMITTED_OFFSET).get(METADATA_PARTITION)
    except CorruptCheckpoint as error:
        logger.error("Ignoring a damaged checkpoint of %s: %s", disk.root, error)
        return None
