"""Logs the progress of a long recovery every few seconds."""

import logging

from cordwood.log.files import LOG
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk

logger = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S = 5.0


class RecoveryProgress:
    """Logs the progress of a log directory's recovery."""

    def __init__(self, disk: Disk, clock: Clock, paths: list[str]) -> None:
        self._root = disk.root
        self._clock = clock
        self._started = self._told = clock.monotonic()
        self.done_bytes = 0
        # An upper bound: flushed data is not scanned.
        self.total_bytes = sum(entry.size for path in paths for entry in disk.list(path) if entry.name.endswith(LOG))

    def advance(self, done_bytes: int) -> None:
        self.done_bytes += done_bytes
        now = self._clock.monotonic()
        if now - self._told >= _PROGRESS_INTERVAL_S:
            self._told = now
            logger.info(
                "Recovering %s: checked %d of at most %d MB", self._root, self.done_bytes >> 20, self.total_bytes >> 20
            )

    def finish(self, partitions: int) -> None:
        logger.info(
            "Opened %d partitions in %s in %.1f s, %d MB checked",
            partitions,
            self._root,
            self._clock.monotonic() - self._started,
            self.done_bytes >> 20,
        )
