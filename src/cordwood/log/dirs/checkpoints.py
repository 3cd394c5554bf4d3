"""The checkpoints of a log directory: recovery points, log starts, high watermarks, and how far compaction has come."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from cordwood.log.checkpoints.clean_stop import LogEnd, read_clean_stop
from cordwood.log.checkpoints.formats import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
)
from cordwood.log.checkpoints.offset_checkpoint import OffsetCheckpoint, TopicPartition
from cordwood.log.config import MAX_INT64
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions
from cordwood.log.steps import Steps
from cordwood.runtime.disk import Disk

logger = logging.getLogger(__name__)

# Reading an offset or two of a log takes well under a microsecond.
_LOOKS_PER_STEP = 20


class Noted(NamedTuple):
    """The checkpoints as a start finds them."""

    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    # None if the compacted part is unknown.
    cleaner_offsets: dict[TopicPartition, int] | None
    # After a clean stop.
    ends: dict[TopicPartition, LogEnd]

    @property
    def partitions(self) -> set[TopicPartition]:
        return {*self.recovery_points, *self.log_starts, *self.high_watermarks, *(self.cleaner_offsets or ())}

    def options(
        self, partition: TopicPartition, *, clean: bool, producer_expiration_ms: int, progress: Callable[[int], None]
    ) -> OpenOptions:
        end = self.ends.get(partition)
        return OpenOptions(
            clean=clean,
            recovery_point=self.recovery_points.get(partition, 0),
            start_offset=self.log_starts.get(partition, 0),
            is_start_noted=partition in self.log_starts,
            log_bytes=None if end is None else end.log_bytes,
            end_offset=None if end is None else end.end_offset,
            high_watermark=self.high_watermarks.get(partition, 0),
            # Without the checkpoint, any gap may come from compaction.
            cleaned_to=MAX_INT64 if self.cleaner_offsets is None else self.cleaner_offsets.get(partition, 0),
            producer_expiration_ms=producer_expiration_ms,
            progress=progress,
        )


class DirectoryCheckpoints:
    """One file for each kind of offset, with a line for each partition. `logs` are those of the directory."""

    def __init__(self, disk: Disk, logs: Mapping[TopicPartition, Log]) -> None:
        self.recovery_points = OffsetCheckpoint(disk, RECOVERY_POINTS)
        # Sealed with a checksum, because damage to it would delete data.
        self.log_starts = OffsetCheckpoint(disk, LOG_START_OFFSETS, is_sealed=True)
        self.high_watermarks = OffsetCheckpoint(disk, HIGH_WATERMARKS)
        self.cleaner = OffsetCheckpoint(disk, CLEANER_OFFSETS)
        # The offset up to which each compacted partition is clean.
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        self._disk = disk
        self._logs = logs
        # Lines kept for partitions without a log (see `keep`).
        self._kept: dict[TopicPartition, dict[OffsetCheckpoint, int]] = {}

    def __iter__(self) -> Iterator[OffsetCheckpoint]:
        return iter((self.recovery_points, self.log_starts, self.high_watermarks, self.cleaner))

    # Reading

    def read(self, clean_epoch: int | None) -> Noted:
        """`clean_epoch`: the broker epoch of the clean stop, if the last stop was one."""
        noted = Noted(
            self._read(self.recovery_points),
            self._read(self.log_starts),
            self._read(self.high_watermarks),
            self._read_cleaner(),
            {} if clean_epoch is None else self._read_clean_stop(clean_epoch),
        )
        self.cleaner_offsets = dict(noted.cleaner_offsets or {})
        return noted

    def _read(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read()
        except CorruptCheckpoint as error:
            # Without it recovery checks more than necessary, but nothing is lost.
            logger.error("Ignoring a damaged checkpoint in %s: %s", self._disk.root, error)
            return {}

    def _read_clean_stop(self, broker_epoch: int) -> dict[TopicPartition, LogEnd]:
        try:
            return read_clean_stop(self._disk, broker_epoch)
        except CorruptCheckpoint as error:
            logger.error("Ignoring a damaged checkpoint in %s: %s", self._disk.root, error)
            return {}

    def _read_cleaner(self) -> dict[TopicPartition, int] | None:
        """Kafka leaves the file empty until it is first written."""
        if not self._disk.read_file(CLEANER_OFFSETS):
            return None
        try:
            return self.cleaner.read()
        except CorruptCheckpoint as error:
            logger.error(
                "Ignoring a damaged cleaner checkpoint in %s; compaction starts from the beginning: %s",
                self._disk.root,
                error,
            )
            return None

    def noted_end(self, partition: TopicPartition) -> int:
        """The offset up to which a partition was written and flushed according to the checkpoints; 0 if unknown."""
        return max(checkpoint.offset_of(partition) for checkpoint in (self.recovery_points, self.high_watermarks))

    # Partitions that come and go

    def separate(self, partition: TopicPartition) -> None:
        """Before a partition is created: a crash must not give a deleted one's offsets to it."""
        for checkpoint in self:
            if checkpoint.may_name_gone(partition):
                self.write(checkpoint)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was deleted. It stays in the files until they are written next."""
        for checkpoint in self:
            checkpoint.forget(partition)

    def keep(self, partition: TopicPartition, noted: dict[OffsetCheckpoint, int]) -> None:
        """Keeps these lines of a partition that has no log for now, through all writes."""
        self._kept[partition] = noted

    # Writing

    def write(self, *checkpoints: OffsetCheckpoint) -> None:
        """Writes these checkpoints at once."""
        for checkpoint in checkpoints:
            checkpoint.write(self._offsets(checkpoint))

    def write_all(self) -> None:
        self.write(*self)

    def _offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        kept = self._kept_offsets(checkpoint)
        if checkpoint is self.cleaner:
            return kept | self.cleaner_offsets
        offset_of = self._offset_of(checkpoint)
        return kept | {partition: offset_of(log) for partition, log in self._logs.items() if log.has_files}

    def _kept_offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        return {partition: noted[checkpoint] for partition, noted in self._kept.items() if checkpoint in noted}

    def _offset_of(self, checkpoint: OffsetCheckpoint) -> Callable[[Log], int]:
        if checkpoint is self.recovery_points:
            return _recovery_point
        return _start_offset if checkpoint is self.log_starts else _high_watermark

    def writing(self, *checkpoints: OffsetCheckpoint) -> Steps[None]:
        """Writes those of these checkpoints that have changed.

        A gathered recovery point may be outdated when it is written, but never ahead of what was flushed: it decreases
        only with a truncation, which writes the file at once and thereby cancels this.
        """
        drafts = [checkpoint.begin() for checkpoint in checkpoints]
        for checkpoint, draft in zip(checkpoints, drafts, strict=True):
            draft.offsets.update(self._kept_offsets(checkpoint))
            if checkpoint is self.cleaner:
                draft.offsets.update(self.cleaner_offsets)
        walked = [
            (draft.offsets, self._offset_of(checkpoint))
            for checkpoint, draft in zip(checkpoints, drafts, strict=True)
            if checkpoint is not self.cleaner
        ]
        if walked:
            for number, (partition, log) in enumerate(list(self._logs.items()), start=1):
                if log.has_files and self._logs.get(partition) is log:
                    for offsets, offset_of in walked:
                        offsets[partition] = offset_of(log)
                if number % _LOOKS_PER_STEP == 0:
                    yield 1
        for checkpoint, draft in zip(checkpoints, drafts, strict=True):
            yield from checkpoint.writing(draft)


def _recovery_point(log: Log) -> int:
    return log.durability.recovery_point


def _high_watermark(log: Log) -> int:
    return log.high_watermark


def _start_offset(log: Log) -> int:
    """Also recorded if it is the first segment's, which Kafka omits: so a missing segment is detected."""
    return log.start_offset
