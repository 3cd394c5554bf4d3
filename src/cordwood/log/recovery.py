"""Opens a log: completes what a crash interrupted, checks data that may not have reached stable storage, and reads the
rest only as far as the checkpoints require."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from cordwood.log.checkpoints.formats import CorruptCheckpoint
from cordwood.log.idempotence.producers import Producers
from cordwood.log.idempotence.replay import load_producers, replay
from cordwood.log.idempotence.snapshots import ProducerSnapshots
from cordwood.log.storage.index import IndexCache, Place
from cordwood.log.storage.segment import Segment
from cordwood.log.storage.segments import Segments
from cordwood.runtime.disk import Disk
from cordwood.runtime.randomness import Random
from cordwood.wire.batch_header import BatchHeader, check_crc
from cordwood.wire.record import CorruptBatch

from .config import MAX_INT64, LogConfig
from .epochs import LeaderEpochs, decode_epochs
from .files import (
    CLEANED,
    CORRUPT,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    PRODUCER_SNAPSHOT,
    SEGMENT_FILES,
    SWAP,
    SegmentFile,
    file_name,
    parse_file_name,
)
from .log import Log
from .metrics import LogMetrics
from .removals import Removals
from .storage import batches

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The partition's checkpointed offsets, and callbacks."""

    clean: bool = False
    recovery_point: int = 0
    start_offset: int = 0
    # True if a checkpoint has the log start offset.
    is_start_noted: bool = False
    # Total size and end offset of the segments at the last clean shutdown; None if unknown.
    log_bytes: int | None = None
    end_offset: int | None = None
    high_watermark: int = 0
    # Compaction has left gaps up to here; beyond it a gap between segments is a loss.
    cleaned_to: int = 0
    producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS
    # Called with the number of bytes checked.
    progress: Callable[[int], None] = lambda _bytes: None


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    random: Random,
    *,
    now_ms: int,
    options: OpenOptions | None = None,
    cache: IndexCache | None = None,
    metrics: LogMetrics | None = None,
    removals: Removals | None = None,
) -> Log:
    """Opens the partition in `directory` (created if missing), ready for appends and reads."""
    options = options or OpenOptions()
    place = Place(disk, directory, cache or IndexCache(), config.index_interval_bytes)
    opening = _Opening(place, config, options, metrics or LogMetrics(), now_ms)
    return opening.run(random, removals)


class _Opening:
    def __init__(
        self,
        place: Place,
        config: LogConfig,
        options: OpenOptions,
        metrics: LogMetrics,
        now_ms: int,
    ) -> None:
        self.place = place
        self.disk = place.disk
        self.directory = place.directory
        self.config = config
        self.options = options
        self.metrics = metrics
        self.now_ms = now_ms
        self.segments = Segments()
        # True if the last scanned segment has all offsets from its first to its last.
        self._is_dense = True
        # True once the loss at the end of the log has been logged.
        self._is_loss_told = False
        self._end_limit = MAX_INT64 if options.end_offset is None else options.end_offset

    def run(self, random: Random, removals: Removals | None) -> Log:
        files = found = self._list_files()
        if any(file.stage for file in files):
            self._finish_interrupted(files)
            files = self._list_files()
        incomplete = self._load_segments(files)
        self.epochs, epochs_lost = self._load_epochs()
        offsets = [file.base_offset for file in files if file.kind == PRODUCER_SNAPSHOT]
        self.snapshots = self._load_snapshots(offsets)

        producers = self._recover(incomplete)
        self._look_for_losses(found)
        try:
            end_offset = self.segments.active.next_offset() if len(self.segments) else 0
            if end_offset > self._end_limit:
                raise CorruptBatch(f"it ends at offset {end_offset}, and ended at {self._end_limit}")
        except CorruptBatch as error:
            damaged = self.segments.active
            logger.error("%s was damaged after a clean shutdown: %s", damaged, error)
            incomplete.append(damaged)
            producers = self._producers_before(damaged)
            self._recover_segment(damaged, producers, None)
            end_offset = damaged.next_offset()
        flushed_to = self.options.recovery_point if self.options.end_offset is None else self.options.end_offset
        if end_offset < flushed_to and not self._is_loss_told:
            self._tell_loss(end_offset, flushed_to)
        if not len(self.segments) or end_offset < self.options.start_offset:
            end_offset, producers = self._start_empty(end_offset), None
        start_offset = max(self.options.start_offset, self.segments.first.base_offset)
        if epochs_lost or not self.options.clean:
            entries = self.epochs.entries
            self._find_earlier_epochs(start_offset, entries[0].start_offset if entries else end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(self.options.start_offset)
        if producers is None:
            self.snapshots.trim(start_offset, end_offset)
            producers = load_producers(
                self.segments,
                self.snapshots,
                self.options.producer_expiration_ms,
                start_offset=start_offset,
                end_offset=end_offset,
                now_ms=self.now_ms,
                clean=self.options.clean,
            )
        log = Log(
            self.place,
            self.config,
            random,
            self.segments,
            self.epochs,
            producers,
            self.snapshots,
            start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=end_offset if self.options.clean else min(self.options.recovery_point, end_offset),
            now_ms=self.now_ms,
            removals=removals,
            is_clean=self.options.clean and not incomplete,
        )
        log.advance_high_watermark(max(self.options.high_watermark, start_offset))
        return log

    # Interrupted operations

    def _list_files(self) -> dict[SegmentFile, int]:
        files = {}
        found_any = False
        for entry in self.disk.list(self.directory):
            found_any = True
            file = parse_file_name(entry.name)
            if file is not None and not entry.is_directory:
                files[file] = entry.size
        if not found_any:
            self.disk.make_directory(self.directory)
        return files

    def _finish_interrupted(self, files: dict[SegmentFile, int]) -> None:
        """Removes files that were being deleted; completes a swap that was decided, and undoes one that was not."""
        cleaned = [file.base_offset for file in files if file.stage == CLEANED]
        first_cleaned = min(cleaned) if cleaned else None
        swaps = []
        for file in files:
            undecided = file.stage == SWAP and first_cleaned is not None and file.base_offset >= first_cleaned
            if file.stage in (DELETED, CLEANED) or undecided:
                self._remove(file)
            elif file.stage == SWAP:
                swaps.append(file)
        swapped_in = [
            Segment(self.place, file.base_offset, {LOG: files[file]}, self.now_ms, stage=SWAP)
            for file in swaps
            if file.kind == LOG
        ]
        if swapped_in:
            logger.info("Completing the interrupted swap of %d segments in %s", len(swapped_in), self.directory)
            first = min(segment.base_offset for segment in swapped_in)
            end = max(segment.next_offset() for segment in swapped_in)
            for file in files:
                if not file.stage and file.kind in SEGMENT_FILES and first <= file.base_offset < end:
                    self._remove(file)
        for file in swaps:
            name = file_name(file.base_offset, file.kind)
            self.disk.rename(f"{self.directory}/{name}{SWAP}", f"{self.directory}/{name}")
        self.disk.sync_directory(self.directory)

    def _remove(self, file: SegmentFile) -> None:
        self.disk.remove(f"{self.directory}/{file_name(*file)}")

    # Losses

    def _look_for_losses(self, found: dict[SegmentFile, int]) -> None:
        """Logs which flushed segments are missing or cut short. The rest is served."""
        if self.options.clean and self.options.log_bytes in (None, self.segments.size):
            return
        if self.options.clean:
            logger.error(
                "%s has %d bytes, but had %s at the clean shutdown: segments are missing or damaged",
                self.directory,
                self.segments.size,
                self.options.log_bytes,
            )
        if not len(self.segments):
            return
        first = self.segments.first.base_offset
        # Retention records the new start some time after it has deleted segments; until then some of their files
        # remain.
        is_retention = any(file.stage == DELETED and file.base_offset < first for file in found)
        if self.options.start_offset < first and self.options.is_start_noted and not is_retention:
            self._tell_loss(self.options.start_offset, first)
        for before, segment in pairwise(self.segments):
            if segment.base_offset > self.options.recovery_point or segment.base_offset <= self.options.cleaned_to:
                continue
            try:
                end = before.next_offset()
            except CorruptBatch as error:
                logger.error("%s is damaged: %s", before.file.path, error)
                continue
            if end < segment.base_offset and before.base_offset >= self.options.cleaned_to:
                self._tell_loss(end, segment.base_offset)

    def _tell_loss(self, start: int, end: int) -> None:
        logger.error(
            "%s: offsets %d to %d are lost: their segment is missing or cut short", self.directory, start, end - 1
        )

    # Loading

    def _load_segments(self, files: dict[SegmentFile, int]) -> list[Segment]:
        """Opens every segment, and returns those without an offset index, which must be scanned."""
        incomplete = []
        bases = {file.base_offset for file in files if file.kind == LOG}
        missing: set[int] = set()
        by_base: dict[int, dict[str, int]] = {base: {} for base in bases}
        for file, size in files.items():
            if file.base_offset in bases:
                by_base[file.base_offset][file.kind] = size
            elif file.kind in SEGMENT_FILES:
                if file.base_offset not in missing:
                    missing.add(file.base_offset)
                    logger.error(
                        "%s/%s is missing although its index exists: its records are lost",
                        self.directory,
                        file_name(file.base_offset, LOG),
                    )
                self._remove(file)
        for base, sizes in by_base.items():
            segment = Segment(self.place, base, sizes, self.now_ms)
            if segment.size > 0 and not segment.has_index_files:
                incomplete.append(segment)
            self.segments.add(segment)
        return sorted(incomplete, key=lambda segment: segment.base_offset)

    def _load_epochs(self) -> tuple[LeaderEpochs, bool]:
        path = f"{self.directory}/{LEADER_EPOCHS}"
        data = self.disk.read_file(path)
        try:
            return (LeaderEpochs() if data is None else decode_epochs(path, data)), False
        except CorruptCheckpoint as error:
            logger.error("Rebuilding the leader epochs from the log: %s", error)
            return LeaderEpochs(), True

    def _find_earlier_epochs(self, start_offset: int, end_offset: int) -> None:
        """Finds epochs from the batches themselves: the checkpoint is damaged, or the log start has moved back before
        it (a crash between a deletion of records and its checkpoint)."""
        if start_offset >= end_offset:
            return
        earlier = LeaderEpochs()
        for segment in self.segments.from_floor(start_offset):
            if segment.base_offset >= end_offset:
                break
            try:
                for _, header in batches.headers(segment.file, 0, segment.size):
                    if start_offset <= header.last_offset and header.base_offset < end_offset:
                        _assign_epoch(earlier, header)
            except CorruptBatch as error:
                logger.error("%s is damaged; leader epochs after the damage are unknown: %s", segment, error)
        self.epochs.prepend(earlier)

    def _load_snapshots(self, offsets: Iterable[int]) -> ProducerSnapshots:
        """Keeps snapshots at the start of a segment, and one past the last segment; the others are useless."""
        snapshots = ProducerSnapshots(self.disk, self.directory, list(offsets))
        bases = {segment.base_offset for segment in self.segments}
        newest_base = max(bases, default=0)
        strays = [offset for offset in snapshots.offsets if offset not in bases]
        keep = strays[-1] if strays and strays[-1] > newest_base else None
        for offset in strays:
            if offset != keep:
                snapshots.remove(offset)
        return snapshots

    # Recovering

    def _recover(self, incomplete: list[Segment]) -> Producers | None:
        """Scans data that may not have reached stable storage; returns the producer state at the end, if it was
        scanned."""
        if self.options.clean:
            if len(self.segments) and not self.segments.active.txn_index.is_sound():
                incomplete.append(self.segments.active)
            for segment in incomplete:
                logger.error("%s: an index is missing after a clean shutdown; rebuilding it", segment)
                self._rebuild(segment)
            return None
        for segment in incomplete:
            if segment.base_offset < self.options.recovery_point and segment is not self.segments.active:
                logger.error("%s: an index that had been flushed is missing; rebuilding it", segment)
                self._rebuild(segment)
        # The leader epoch checkpoint may be ahead of the log. Past the recovery point the batches tell the epochs,
        # except where compaction may have removed an epoch's first batches (it only removes flushed ones).
        self.epochs.truncate_from_end(max(self.options.recovery_point, self.options.cleaned_to))
        suspects = self.segments.from_floor(self.options.recovery_point) if len(self.segments) else []
        if suspects:
            self.snapshots.trim(self.options.start_offset, suspects[0].base_offset)
        producers = None
        for number, segment in enumerate(suspects):
            if number and self._follows_a_loss(suspects[number - 1], segment):
                self._drop(suspects[number:], "offsets before it are missing", flushed=True)
                break
            producers = producers or self._producers_before(segment)
            following = suspects[number + 1].base_offset if number + 1 < len(suspects) else None
            cut = self._recover_segment(segment, producers, following)
            if cut is not None:
                self._drop(suspects[number + 1 :], "the log is cut before it", flushed=cut)
                break
        return producers

    def _rebuild(self, segment: Segment) -> None:
        """Rebuilds the indexes, aborted transactions included, of a segment whose data is not in doubt."""
        segment.reset_indexes(with_txns=True)
        producers = self._producers_before(segment)
        position, next_offset = 0, segment.base_offset
        try:
            for position, header, data in batches.whole_batches(segment.file, 0, segment.size):
                segment.index_batch(header, position)
                replay(producers, segment, header, data)
                position += header.size
                next_offset = header.next_offset
        except CorruptBatch as error:
            # As in Kafka, later segments stay, because they had been flushed too.
            self._cut_damage(segment, position, f"offsets {next_offset} up to the next segment", str(error))
        segment.seal()

    def _producers_before(self, segment: Segment) -> Producers:
        return load_producers(
            self.segments,
            self.snapshots,
            self.options.producer_expiration_ms,
            start_offset=self.options.start_offset,
            end_offset=segment.base_offset,
            now_ms=self.now_ms,
        )

    def _follows_a_loss(self, before: Segment, segment: Segment) -> bool:
        """Segments are written without gaps; only compaction creates them, and it does so everywhere."""
        end = before.next_offset()
        if end >= segment.base_offset or segment.base_offset <= self.options.cleaned_to or not self._is_dense:
            return False
        logger.error(
            "%s ends at offset %d, but the next segment begins at %d: the end of it was lost",
            before.file.path,
            end,
            segment.base_offset,
        )
        return True

    def _recover_segment(self, segment: Segment, producers: Producers, following: int | None) -> bool | None:
        """Checks every batch and rebuilds indexes, producer state and leader epochs on the way.

        Returns None if everything was intact; otherwise the segment was truncated, and the result says whether flushed
        data was lost.
        """
        logger.info("Recovering %s", segment)
        segment.reset_indexes(with_txns=True)
        position, next_offset = 0, segment.base_offset
        cut = None
        self._is_dense = True
        try:
            for position, header, data in batches.whole_batches(segment.file, 0, segment.size):
                _check_recovered(segment, header, data, next_offset, self._end_limit)
                if following is not None and header.last_offset >= following:
                    self._undo_lost_truncation(segment, position, following)
                    break
                segment.index_batch(header, position)
                if header.magic >= 2:
                    _assign_epoch(self.epochs, header)
                    replay(producers, segment, header, data)
                if header.base_offset != next_offset or header.count != header.last_offset_delta + 1:
                    self._is_dense = False
                next_offset = header.next_offset
                position += header.size
                self.options.progress(header.size)
        except CorruptBatch as error:
            cut = self._cut(segment, position, next_offset, str(error))
        producers.end_offset = next_offset
        if segment is self.segments.active or cut is not None:
            segment.write_indexes()
        else:
            segment.seal()
        self.snapshots.write(producers)
        return cut

    def _undo_lost_truncation(self, segment: Segment, position: int, following: int) -> None:
        """The next segment begins within this one: the preceding truncation was lost in the crash."""
        logger.warning(
            "cutting %d bytes off %s at position %d: they had been truncated, and the next segment begins at offset "
            "%d; they are kept as %s",
            segment.size - position,
            segment.file.path,
            position,
            following,
            segment.keep_as_corrupt(position),
        )
        segment.file.truncate(position)

    def _cut(self, segment: Segment, position: int, next_offset: int, reason: str) -> bool:
        """Logs a torn write, and keeps damaged flushed data beside the segment: nothing is dropped silently."""
        if next_offset < self.options.recovery_point:
            lost = f"offsets {next_offset} up to the recovery point {self.options.recovery_point}"
            self._cut_damage(segment, position, lost, reason)
            return True
        size = segment.size - position
        self.metrics.torn_bytes += size
        logger.warning(
            "cutting %d bytes that were not completely written off %s at position %d, offset %d: %s; kept as %s",
            size,
            segment.file.path,
            position,
            next_offset,
            reason,
            # Not synced: there may be thousands of partitions, and the data itself was not synced either.
            segment.keep_as_corrupt(position, sync=False),
        )
        segment.file.truncate(position)
        return False

    def _cut_damage(self, segment: Segment, position: int, lost: str, reason: str) -> None:
        self._is_loss_told = True
        kept = segment.keep_as_corrupt(position)
        size = segment.size - position
        self.metrics.corrupt_bytes += size
        logger.error(
            "%s is damaged at position %d (%s): %s had been flushed and are lost; cutting %d bytes there, "
            "which are kept as %s",
            segment.file.path,
            position,
            reason,
            lost,
            size,
            kept,
        )
        segment.file.truncate(position)

    def _drop(self, segments: list[Segment], reason: str, *, flushed: bool) -> None:
        """The log ends before these segments. Their records are kept beside it."""
        for segment in reversed(segments):
            size = segment.size
            logger.log(
                logging.ERROR if flushed else logging.WARNING,
                "taking %s with %d bytes from offset %d on out of the log: %s; it is kept as %s",
                segment.file.path,
                size,
                segment.base_offset,
                reason,
                CORRUPT,
            )
            if flushed:
                self.metrics.corrupt_bytes += size
            else:
                self.metrics.torn_bytes += size
            self.segments.remove(segment)
            segment.forget()
            segment.become_corrupt()
            if segment.base_offset in self.snapshots.offsets:
                self.snapshots.remove(segment.base_offset)
        self.disk.sync_directory(self.directory)

    def _start_empty(self, end_offset: int) -> int:
        """Restarts the log at its start offset if no segment reaches it (files were deleted manually)."""
        start_offset = self.options.start_offset
        if len(self.segments):
            logger.warning(
                "%s ends at %d, before its start offset %d: its segments are removed",
                self.directory,
                end_offset,
                start_offset,
            )
            for segment in list(self.segments):
                self.segments.remove(segment)
                segment.forget()
                segment.remove()
            self.epochs.clear()
            for offset in list(self.snapshots.offsets):
                self.snapshots.remove(offset)
        self.segments.add(Segment.create(self.place, start_offset, self.now_ms))
        return start_offset


def _check_recovered(segment: Segment, header: BatchHeader, data: memoryview, next_offset: int, end_limit: int) -> None:
    check_crc(data, header)
    if header.next_offset > end_limit:
        raise CorruptBatch(f"offset {header.last_offset} is past the end of the log, {end_limit}")
    if header.last_offset < next_offset or (header.magic >= 2 and header.base_offset < next_offset):
        raise CorruptBatch(f"offset {header.base_offset} does not follow {next_offset - 1}")
    if not segment.accepts_offset(header.last_offset):
        raise CorruptBatch(f"offset {header.last_offset} is too far from the segment's first, {segment.base_offset}")


def _assign_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.leader_epoch > epochs.latest:
        epochs.assign(header.leader_epoch, header.base_offset)
