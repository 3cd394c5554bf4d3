"""Chooses the next log to compact, and installs the result of compaction.

    plan = cleaner.next(now_ms)
    outcome = plan.run()               # in a separate thread cleaner.install(outcome, now_ms)

Everything but `run` belongs to the owner of the logs. While a plan is in progress no other code may rename or delete
the log's files: `is_busy` reports that, `apply_retention` respects it, and callers that cannot wait call `stop` and
wait for `run` to end.
"""

import logging
import sys
from collections.abc import Sequence
from typing import NamedTuple

from cordwood.log.config import MAX_INT64
from cordwood.log.dirs.directory import LogDirectory, TopicPartition
from cordwood.log.epoch_file import writing_epochs
from cordwood.log.files import CLEANED
from cordwood.log.log import Log
from cordwood.log.retention import applying_retention
from cordwood.log.steps import Steps, do_all
from cordwood.log.storage.segment import Segment
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError, FileGone
from cordwood.wire.record import CorruptBatch

from .compaction import (
    Compacted,
    Compaction,
    CompactionStopped,
    LastBatch,
    Resources,
    SegmentGone,
    Source,
    Task,
    source_of,
)
from .throttle import Throttle

logger = logging.getLogger(__name__)

# Cost of assessing how dirty a log is.
_ASSESSMENT_STEPS = 1


class CleanerConfig(NamedTuple):
    """The broker's `log.cleaner.*` settings. Those that are defaults of topic settings (lags, ratio, retention) are in
    LogConfig."""

    enable: bool = True
    threads: int = 1
    # Memory and I/O rate are shared by all threads.
    dedupe_buffer_size: int = 134_217_728
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288
    io_max_bytes_per_second: float = sys.float_info.max
    # Back-off if there was nothing to do.
    backoff_ms: int = 15_000


class Plan(NamedTuple):
    """A compaction pass over one log. `run` is for a thread; the rest belongs to the owner."""

    directory: LogDirectory
    partition: TopicPartition
    log: Log
    segments: tuple[Segment, ...]
    # All records that determine the dropped ones are below it: later records of the same keys, and transaction markers.
    decided_by: int
    truncations: int
    job: Compaction

    def run(self) -> "Outcome":
        try:
            return Outcome(self, self.job.run())
        except Exception as error:  # noqa: BLE001 - as in Kafka: any error costs this log's compaction only
            return Outcome(self, error)


class Outcome(NamedTuple):
    """The result of a plan. After an exception the log is unchanged."""

    plan: Plan
    result: Compacted | Exception


class Cleaner:
    def __init__(self, directories: Sequence[LogDirectory], config: CleanerConfig, clock: Clock) -> None:
        self._directories = directories
        self.config = config
        self._clock = clock
        self._under_way: dict[TopicPartition, Plan] = {}
        # Logs excluded from compaction until a restart, with the reason.
        self._uncleanable: dict[Log, str] = {}
        # The ratio of the dirtiest log at the last assessment.
        self.max_dirty_ratio = 0.0

    def configure(self, config: CleanerConfig) -> None:
        """Plans in progress keep the configuration that they began with."""
        self.config = config

    @property
    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    @property
    def uncleanable(self) -> dict[TopicPartition, str]:
        return {
            partition: self._uncleanable[log]
            for directory in self._online
            for partition, log in directory.logs.items()
            if log in self._uncleanable
        }

    # Choosing

    def next(self, now_ms: int) -> Plan | None:
        """The dirtiest log that is due for compaction, or None."""
        return do_all(self.choosing(now_ms))

    def choosing(self, now_ms: int) -> Steps[Plan | None]:
        if not self.config.enable:
            return None
        dirtiest: Candidate | None = None
        max_dirty_ratio = 0.0
        moved: dict[LogDirectory, None] = {}
        self._forget_deleted()
        for directory, partition, log in self._compacted_logs():
            yield _ASSESSMENT_STEPS
            if not self._may_be_planned(directory, partition, log):
                continue
            if self._check_first_dirty_offset(directory, partition, log):
                moved[directory] = None
            candidate = self._assess(directory, partition, log, now_ms)
            if candidate is not None:
                max_dirty_ratio = max(max_dirty_ratio, candidate.dirty_ratio)
                if candidate.is_due and (dirtiest is None or candidate.dirty_ratio > dirtiest.dirty_ratio):
                    dirtiest = candidate
        self.max_dirty_ratio = max_dirty_ratio
        for directory in moved:
            yield from directory.checkpoints.writing(directory.checkpoints.cleaner)
        if dirtiest is None or not self._may_be_planned(dirtiest.directory, dirtiest.partition, dirtiest.log):
            return None
        # Assess again: it may have changed.
        candidate = self._assess(dirtiest.directory, dirtiest.partition, dirtiest.log, now_ms)
        if candidate is None or not candidate.is_due:
            return None
        plan = self._plan(candidate, now_ms)
        self._under_way[plan.partition] = plan
        return plan

    def _compacted_logs(self) -> list[tuple[LogDirectory, TopicPartition, Log]]:
        return [
            (directory, partition, log)
            for directory in self._online
            for partition, log in directory.logs.items()
            if log.config.compact
        ]

    def _may_be_planned(self, directory: LogDirectory, partition: TopicPartition, log: Log) -> bool:
        return (
            directory.logs.get(partition) is log
            and partition not in self._under_way
            and log not in self._uncleanable
            and not directory.is_offline
        )

    def _forget_deleted(self) -> None:
        if self._uncleanable:
            logs = {log for directory in self._online for log in directory.logs.values()}
            self._uncleanable = {log: reason for log, reason in self._uncleanable.items() if log in logs}

    def _assess(self, directory: LogDirectory, partition: TopicPartition, log: Log, now_ms: int) -> "Candidate | None":
        """None if there is nothing to compact."""
        first_dirty_offset = directory.checkpoints.cleaner_offsets.get(partition, log.start_offset)
        if first_dirty_offset >= log.active.base_offset and len(log.segments) == 1:
            return None
        try:
            candidate = assess(directory, partition, log, first_dirty_offset, now_ms)
        except CorruptBatch as error:
            self._give_up(log, error)
            return None
        return candidate if candidate.total_bytes else None

    def _check_first_dirty_offset(self, directory: LogDirectory, partition: TopicPartition, log: Log) -> bool:
        """Returns whether the checkpointed offset had to be moved into the log's range."""
        clean_to = directory.checkpoints.cleaner_offsets.get(partition, log.start_offset)
        if log.start_offset <= clean_to <= log.end_offset:
            return False
        if clean_to > log.end_offset or not log.config.delete:
            logger.warning(
                "%s: cleaner checkpoint %d is outside the log's offsets %d to %d; compacting from the start",
                log.directory,
                clean_to,
                log.start_offset,
                log.end_offset,
            )
        directory.checkpoints.cleaner_offsets[partition] = log.start_offset
        return True

    def _plan(self, candidate: "Candidate", now_ms: int) -> Plan:
        log, config = candidate.log, self.config
        end_offset = candidate.first_uncleanable_offset
        segments = log.segments.between(0, end_offset)
        ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
        task = Task(
            directory=log.directory,
            config=log.config,
            sources=tuple(source_of(segment, end) for segment, end in zip(segments, ends, strict=True)),
            first_dirty_offset=candidate.first_dirty_offset,
            first_uncleanable_offset=end_offset,
            aborted=tuple(log.aborted_txns_between(segments[0].base_offset, end_offset)),
            last_batches={
                producer.producer_id: LastBatch(
                    producer.batches[-1].last_offset if producer.batches else None, producer.epoch
                )
                for producer in log.producers.by_id.values()
            },
            now_ms=now_ms,
        )
        resources = Resources(
            dedupe_buffer_bytes=config.dedupe_buffer_size // config.threads,
            load_factor=config.io_buffer_load_factor,
            io_buffer_bytes=config.io_buffer_size // config.threads // 2,
        )
        throttle = Throttle(self._clock, config.io_max_bytes_per_second / config.threads)
        job = Compaction(log.disk.another(), task, resources, throttle)
        return Plan(
            candidate.directory,
            candidate.partition,
            log,
            tuple(segments),
            log.high_watermark,
            log.durability.truncations,
            job,
        )

    # While a plan is in progress

    def is_busy(self, partition: TopicPartition) -> bool:
        return partition in self._under_way

    def stop(self, partition: TopicPartition) -> None:
        """Call before a truncation or the deletion of the partition: its plan's `run` returns soon, without changes."""
        if partition in self._under_way:
            self._under_way[partition].job.stop()

    def stop_all(self) -> None:
        for partition in self._under_way:
            self.stop(partition)

    def apply_retention(self, now_ms: int) -> int:
        """Deletes old segments of compacted logs, which Kafka also leaves to its cleaner; returns their number."""
        return do_all(self.applying_retention(now_ms))

    def applying_retention(self, now_ms: int) -> Steps[int]:
        deleted = 0
        for directory, partition, log in self._compacted_logs():
            deleted += yield from self.retaining(directory, partition, log, now_ms)
        return deleted

    def retaining(self, directory: LogDirectory, partition: TopicPartition, log: Log, now_ms: int) -> Steps[int]:
        """Deletes old segments of one log, compacted or not, as long as it exists and is not being compacted."""
        steps = applying_retention(log, now_ms)
        try:
            while directory.logs.get(partition) is log and not self.is_busy(partition):
                yield next(steps)
        except StopIteration as ended:
            return int(ended.value)
        finally:
            steps.close()
        return 0

    # Ending

    def install(self, outcome: Outcome, now_ms: int) -> bool:
        """Ends the plan. Returns True if the log is clean up to the outcome's offset, or False if it is unchanged."""
        return do_all(self.installing(outcome, now_ms))

    def installing(self, outcome: Outcome, now_ms: int) -> Steps[bool]:
        """Each step is durable before the next. The flush comes first: the records that superseded dropped ones must
        not be lost, and compaction leaves gaps between segments, which recovery would treat as a loss beyond the
        recovery point."""
        plan, result = outcome.plan, outcome.result
        try:
            if isinstance(result, DiskError):
                # The directory is offline, which its owner handles.
                raise result
            if isinstance(result, CompactionStopped | SegmentGone | FileGone) or not _is_unchanged(plan):
                return (yield from self._discarding(plan))
            if isinstance(result, Exception):
                self._give_up(plan.log, result)
                return False
            if not (yield from self._flushing(plan, now_ms)):
                return (yield from self._discarding(plan))
            return (yield from self._swapping(plan, result, now_ms))
        finally:
            del self._under_way[plan.partition]

    def _discarding(self, plan: Plan) -> Steps[bool]:
        logger.info("%s: compaction aborted, because the log is being truncated, moved or deleted", plan.log.directory)
        yield plan.job.remove_cleaned
        return False

    def _flushing(self, plan: Plan, now_ms: int) -> Steps[bool]:
        """Flushes the records that determine the dropped ones; returns False if the log has changed in the meantime."""
        directory, log = plan.directory, plan.log
        while directory.checkpoints.recovery_points.offset_of(plan.partition) < plan.decided_by:
            while log.durability.recovery_point < plan.decided_by:
                for write in writing_epochs(log, "cleaner"):
                    yield write
                    if not _is_unchanged(plan):
                        return False
                job = log.begin_flush(now_ms)
                yield job.run
                if not _is_unchanged(plan):
                    return False
                log.end_flush(job)
            yield from directory.checkpoints.writing(directory.checkpoints.recovery_points)
            if not _is_unchanged(plan):
                return False
        return True

    def _swapping(self, plan: Plan, result: Compacted, now_ms: int) -> Steps[bool]:
        directory, log = plan.directory, plan.log
        cleaned = [_cleaned_segment(log, source, now_ms) for source in result.cleaned]
        for step in log.replacing_segments(cleaned, list(plan.segments[: result.replaced]), now_ms):
            yield step
            if directory.logs.get(plan.partition) is not log:
                # It was deleted, and the compacted files with it.
                return False
        directory.checkpoints.cleaner_offsets[plan.partition] = result.end_offset
        yield from directory.checkpoints.writing(directory.checkpoints.cleaner)
        self._note(plan, result)
        return True

    def _give_up(self, log: Log, cause: Exception) -> None:
        self._uncleanable[log] = f"{type(cause).__name__}: {cause}"
        logger.error(
            "%s: compaction failed; the partition is excluded from cleaning until the node restarts: %s",
            log.directory,
            self._uncleanable[log],
            exc_info=None if isinstance(cause, CorruptBatch) else cause,
        )

    def _note(self, plan: Plan, result: Compacted) -> None:
        stats, metrics = result.stats, plan.directory.metrics
        metrics.cleaned_records += stats.records_read
        metrics.cleaned_bytes_read += stats.bytes_read
        metrics.cleaned_bytes_written += stats.bytes_written
        logger.info(
            "%s is clean up to offset %d: %d segments became %d; %d of %d records and %d of %d bytes were kept; "
            "the offset map was filled to %.0f %%",
            plan.log.directory,
            result.end_offset,
            result.replaced,
            len(result.cleaned),
            stats.records_kept,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
            100 * stats.map_utilization,
        )
        if stats.keyless_records:
            logger.warning("%s: compaction dropped %d records without a key", plan.log.directory, stats.keyless_records)


class Candidate(NamedTuple):
    """A log with its dirty ratio. Only whole segments are counted and compacted."""

    directory: LogDirectory
    partition: TopicPartition
    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.dirty_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes

    @property
    def is_due(self) -> bool:
        """max.compaction.lag.ms makes a log due regardless of its dirty ratio."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def assess(
    directory: LogDirectory, partition: TopicPartition, log: Log, first_dirty_offset: int, now_ms: int
) -> Candidate:
    dirty = [segment for segment in log.segments.from_floor(first_dirty_offset) if segment is not log.active]
    bounds = [log.last_stable_offset, log.active.base_offset]
    if log.config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - log.config.min_compaction_lag_ms
        bounds += [segment.base_offset for segment in dirty if segment.largest_timestamp > youngest_ms][:1]
    uncleanable = log.segments.floor(max(min(bounds), first_dirty_offset))
    assert uncleanable is not None
    end_offset = uncleanable.base_offset
    return Candidate(
        directory=directory,
        partition=partition,
        log=log,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=end_offset,
        clean_bytes=sum(segment.size for segment in log.segments.between(0, first_dirty_offset)),
        dirty_bytes=sum(segment.size for segment in dirty if segment.base_offset < end_offset),
        is_overdue=_is_overdue(log, dirty, now_ms),
    )


def _is_overdue(log: Log, dirty: list[Segment], now_ms: int) -> bool:
    if log.config.max_compaction_lag_ms == MAX_INT64:
        return False
    oldest_ms = min((first_ms for segment in dirty if (first_ms := segment.first_timestamp()) > 0), default=MAX_INT64)
    return oldest_ms < now_ms - log.config.max_compaction_lag_ms


def _is_unchanged(plan: Plan) -> bool:
    log = plan.log
    return (
        plan.directory.logs.get(plan.partition) is log
        and plan.truncations == log.durability.truncations
        and all(segment in log.segments for segment in plan.segments)
    )


def _cleaned_segment(log: Log, source: Source, now_ms: int) -> Segment:
    return Segment(log.place, source.base_offset, source.sizes, now_ms, stage=CLEANED)
