"""Which log is compacted next, and putting what compaction made in its place.

    plan = cleaner.next(now_ms)
    outcome = plan.run()               # in a thread of its own
    cleaner.install(outcome, now_ms)

All but `run` belongs to the owner of the logs. While a plan is under way nobody else may rename or delete the log's
files: `is_busy` says so, `apply_retention` heeds it, and who cannot wait calls `stop` and lets `run` end first.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.wire.record import CorruptBatch

from .checkpoint import RECOVERY_POINTS, read_offsets
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
from .config import MAX_INT64
from .directory import LogDirectory, TopicPartition
from .files import CLEANED
from .log import Log
from .retention import apply_retention
from .segment import Segment
from .throttle import Throttle

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The broker's `log.cleaner.*`. Those that are defaults for topics (lags, ratio, retention) are in LogConfig."""

    enable: bool = True
    threads: int = 1
    # Memory and rate are shared by all threads.
    dedupe_buffer_size: int = 134_217_728
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288
    io_max_bytes_per_second: float = sys.float_info.max
    # How long the owner waits when there was nothing to do.
    backoff_ms: int = 15_000


@dataclass(frozen=True, slots=True)
class Plan:
    """A pass over one log. `run` is for a thread; the rest is the owner's."""

    directory: LogDirectory
    partition: TopicPartition
    log: Log
    segments: tuple[Segment, ...]
    # Below it lies everything that decided what goes: later records of the same keys, and the markers of transactions.
    decided_by: int
    truncations: int
    job: Compaction

    def run(self) -> "Outcome":
        try:
            return Outcome(self, self.job.run())
        except Exception as error:  # noqa: BLE001 - as in Kafka: whatever it is, it costs this log's compaction only
            return Outcome(self, error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan came to. With an exception the log is as it was."""

    plan: Plan
    result: Compacted | Exception


class Cleaner:
    def __init__(self, directories: Sequence[LogDirectory], config: CleanerConfig, clock: Clock) -> None:
        self._directories = directories
        self._config = config
        self._clock = clock
        self._under_way: dict[TopicPartition, Plan] = {}
        # Logs that could not be compacted and will not be before a restart, and why.
        self._uncleanable: dict[Log, str] = {}
        # Of the dirtiest log, when it was last looked.
        self.max_dirty_ratio = 0.0

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
        """The dirtiest log that is due; None when there is none."""
        if not self._config.enable:
            return None
        candidates = self._candidates(now_ms)
        self.max_dirty_ratio = max((candidate.dirty_ratio for candidate in candidates), default=0.0)
        dirtiest = max(
            (candidate for candidate in candidates if candidate.is_due),
            key=lambda candidate: candidate.dirty_ratio,
            default=None,
        )
        if dirtiest is None:
            return None
        plan = self._plan(dirtiest, now_ms)
        self._under_way[plan.partition] = plan
        return plan

    def _candidates(self, now_ms: int) -> list["Candidate"]:
        found = []
        logs = set()
        for directory in self._online:
            for partition, log in directory.logs.items():
                logs.add(log)
                if log.config.compact and partition not in self._under_way and log not in self._uncleanable:
                    first_dirty_offset = self._first_dirty_offset(directory, partition, log)
                    try:
                        candidate = assess(directory, partition, log, first_dirty_offset, now_ms)
                    except CorruptBatch as error:
                        self._give_up(log, error)
                        continue
                    if candidate.total_bytes:
                        found.append(candidate)
        # Deleted partitions.
        self._uncleanable = {log: reason for log, reason in self._uncleanable.items() if log in logs}
        return found

    def _first_dirty_offset(self, directory: LogDirectory, partition: TopicPartition, log: Log) -> int:
        clean_to = directory.cleaner_offsets.get(partition, log.start_offset)
        if log.start_offset <= clean_to <= log.end_offset:
            return clean_to
        if clean_to > log.end_offset or not log.config.delete:
            logger.warning(
                "%s was clean up to %d, which is not within its offsets %d to %d any more: compaction starts over",
                log.directory,
                clean_to,
                log.start_offset,
                log.end_offset,
            )
        directory.cleaner_offsets[partition] = log.start_offset
        directory.checkpoint_cleaner()
        return log.start_offset

    def _plan(self, candidate: "Candidate", now_ms: int) -> Plan:
        log, config = candidate.log, self._config
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
            candidate.directory, candidate.partition, log, tuple(segments), log.high_watermark, log.truncations, job
        )

    # While a plan is under way

    def is_busy(self, partition: TopicPartition) -> bool:
        return partition in self._under_way

    def stop(self, partition: TopicPartition) -> None:
        """Before a truncation, or the end of the partition: its plan's `run` returns soon, and changes nothing."""
        if partition in self._under_way:
            self._under_way[partition].job.stop()

    def apply_retention(self, now_ms: int) -> int:
        """Deletes old segments of compacted logs, which Kafka leaves to its cleaner, too; how many."""
        return sum(
            apply_retention(log, now_ms)
            for directory in self._online
            for partition, log in directory.logs.items()
            if log.config.compact and not self.is_busy(partition)
        )

    # Ending

    def install(self, outcome: Outcome, now_ms: int) -> bool:
        """Ends the plan: the log is clean up to where the outcome says, or else it is as it was, and False.

        Every step is durable before the next. The flush comes first: what took the place of records that go must not be
        lost, and compaction leaves gaps between segments, which recovery takes for a loss beyond the recovery point.
        """
        plan, result = outcome.plan, outcome.result
        del self._under_way[plan.partition]
        if isinstance(result, DiskError):
            # The directory is offline, which is its owner's to handle.
            raise result
        if isinstance(result, CompactionStopped | SegmentGone) or not _is_unchanged(plan):
            logger.info(
                "%s was wanted for something else while it was compacted: nothing comes of it", plan.log.directory
            )
            plan.job.remove_cleaned()
            return False
        if isinstance(result, Exception):
            self._give_up(plan.log, result)
            return False
        directory, log = plan.directory, plan.log
        if read_offsets(directory.disk, RECOVERY_POINTS).get(plan.partition, 0) < plan.decided_by:
            log.flush(now_ms)
            directory.checkpoint_recovery_points()
        cleaned = [_cleaned_segment(log, source, now_ms) for source in result.cleaned]
        log.replace_segments(cleaned, list(plan.segments[: result.replaced]), now_ms)
        directory.cleaner_offsets[plan.partition] = result.end_offset
        directory.checkpoint_cleaner()
        self._note(plan, result)
        return True

    def _give_up(self, log: Log, cause: Exception) -> None:
        self._uncleanable[log] = f"{type(cause).__name__}: {cause}"
        logger.error(
            "%s cannot be compacted and is left as it is from here on: %s",
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
            logger.warning(
                "%s had %d records without a key, which compaction drops", plan.log.directory, stats.keyless_records
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """How dirty a log is. Only whole segments are counted, and compacted."""

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
        """max.compaction.lag.ms makes a log due however little of it is dirty."""
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
        and plan.truncations == log.truncations
        and all(segment in log.segments for segment in plan.segments)
    )


def _cleaned_segment(log: Log, source: Source, now_ms: int) -> Segment:
    return Segment(log.place, source.base_offset, source.sizes, now_ms, stage=CLEANED)
