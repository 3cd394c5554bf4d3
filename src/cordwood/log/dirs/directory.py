"""A log directory: the partitions on one disk, with their checkpoints. It opens, stops and fails as a whole."""

import logging
from collections.abc import Callable

from cordwood.log.checkpoints.clean_stop import LogEnd, read_clean_stop, write_clean_stop
from cordwood.log.checkpoints.formats import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    decode_clean_shutdown,
    decode_partition_metadata,
    encode_clean_shutdown,
)
from cordwood.log.checkpoints.offset_checkpoint import OffsetCheckpoint
from cordwood.log.checkpoints.offset_checkpoint import TopicPartition as TopicPartition
from cordwood.log.config import MAX_INT64, LogConfig
from cordwood.log.creation import new_log
from cordwood.log.files import (
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    PARTITION_METADATA,
    STRAY_DIRECTORY,
    directory_name,
    marked_directory_name,
)
from cordwood.log.log import Log
from cordwood.log.metrics import LogMetrics
from cordwood.log.recovery import DEFAULT_PRODUCER_EXPIRATION_MS, OpenOptions, open_log
from cordwood.log.removals import Removals
from cordwood.log.steps import Steps, do_all
from cordwood.log.storage.index import IndexCache, Place
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.randomness import Random
from cordwood.wire.primitives import Uuid

from .contents import METADATA_PARTITION as METADATA_PARTITION
from .contents import Kind, folders
from .recovery_progress import RecoveryProgress

logger = logging.getLogger(__name__)

# The id of a directory that belongs to no cluster.
NO_ID: Uuid = bytes(16)
# Reading an offset or two of a log takes well under a microsecond.
_LOOKS_PER_STEP = 20


class LogDirectory:
    """`config_of` returns the configuration of a topic. An I/O error takes the directory offline: `is_offline`."""

    def __init__(
        self,
        disk: Disk,
        config_of: Callable[[str], LogConfig],
        clock: Clock,
        random: Random,
        *,
        producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
        cache: IndexCache | None = None,
        directory_id: Uuid = NO_ID,
    ) -> None:
        self.disk = disk
        # From `meta.properties`: the directory's id in the cluster's metadata.
        self.id = directory_id
        # True if it accepts no new partitions (`cordoned.log.dirs`, KIP-1066).
        self.is_cordoned = False
        self.metrics = LogMetrics()
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        # Replicas being moved into this directory (see `relocation`).
        self.futures: dict[TopicPartition, Log] = {}
        # Directories of moves that were in progress when the node last stopped.
        self.interrupted: dict[TopicPartition, str] = {}
        self._interrupted_options: dict[TopicPartition, OpenOptions] = {}
        # Future replicas of which only a start with all directories online can tell whether they are the last copy,
        # with their checkpointed offsets.
        self._undecided: dict[TopicPartition, dict[OffsetCheckpoint, int]] = {}
        # The offset up to which each compacted partition is clean.
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        # The partitions' directories as `find` saw them; None before.
        self._found: dict[TopicPartition, str] | None = None
        # Broker epoch of the last clean shutdown; -1 if it was not clean.
        self.last_broker_epoch = -1
        self._config_of = config_of
        self._clock = clock
        self._random = random
        self._producer_expiration_ms = producer_expiration_ms
        self._cache = cache or IndexCache()
        self.removals = Removals(disk)
        self.recovery_points = OffsetCheckpoint(disk, RECOVERY_POINTS)
        # Sealed with a checksum, because damage to it would delete data.
        self.log_starts = OffsetCheckpoint(disk, LOG_START_OFFSETS, is_sealed=True)
        self.high_watermarks = OffsetCheckpoint(disk, HIGH_WATERMARKS)
        self.cleaner_checkpoint = OffsetCheckpoint(disk, CLEANER_OFFSETS)

    @property
    def is_offline(self) -> bool:
        return self.disk.failure is not None

    @property
    def checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaner_checkpoint)

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Applies to partitions created from now on; existing ones have their own."""
        self._producer_expiration_ms = expiration_ms

    # Opening

    def find(self) -> None:
        """Finds the partitions and reads their topic ids; changes nothing."""
        self._found = {}
        foreign = []
        for folder in folders(self.disk):
            key = (folder.topic, folder.partition)
            match folder.kind:
                case Kind.PARTITION:
                    self._found[key] = folder.name
                    self._read_topic_id(key, folder.name)
                case Kind.DELETED:
                    # Its topic was deleted by a committed record; the node stopped before the files were removed.
                    self.removals.add(self._clock.now_ms(), folder.name, is_partition=True)
                case Kind.FUTURE:
                    self.interrupted[key] = folder.name
                    self._read_topic_id(key, folder.name)
                case Kind.STRAY:
                    logger.info("Keeping the stray partition %s/%s", self.disk.root, folder.name)
                case Kind.FOREIGN:
                    foreign.append(folder.name)
        if foreign:
            logger.warning(
                "Leaving folders in %s alone that are not partitions: %s", self.disk.root, ", ".join(foreign)
            )

    @property
    def found(self) -> list[tuple[TopicPartition, Uuid | None]]:
        """The partitions of the directory, and those being moved in, with their topic ids (None: unknown)."""
        return [(key, self.topic_ids.get(key)) for key in (*(self._found or ()), *self.interrupted)]

    def _read_topic_id(self, partition: TopicPartition, path: str) -> None:
        metadata = self.disk.read_file(f"{path}/{PARTITION_METADATA}")
        if metadata is not None:
            try:
                self.topic_ids[partition] = decode_partition_metadata(f"{path}/{PARTITION_METADATA}", metadata)
            except CorruptCheckpoint as error:
                # The node crashed just after creating the partition; the cluster's metadata knows its id.
                logger.error(
                    "A partition in %s has no readable topic id (partition.metadata): %s", self.disk.root, error
                )

    def noted_end(self, topic: str, partition: int) -> int:
        """The offset up to which a partition was written and flushed according to the checkpoints; 0 if unknown."""
        return max(
            checkpoint.offset_of((topic, partition)) for checkpoint in (self.recovery_points, self.high_watermarks)
        )

    def set_aside(self, topic: str, partition: int) -> str:
        """Renames a found partition to `…-stray`, as Kafka does, and returns the new name. It stays until an operator
        removes it."""
        stray = marked_directory_name(topic, partition, self._unique_id(), STRAY_DIRECTORY)
        self.disk.rename(self._give_up((topic, partition)), stray)
        self.disk.sync_directory()
        return stray

    def finish_deletion(self, topic: str, partition: int) -> None:
        """Deletes a found partition whose topic was deleted before the node stopped."""
        self._doom((topic, partition), self._give_up((topic, partition)), self._clock.now_ms())

    def _give_up(self, partition: TopicPartition) -> str:
        """The path of a found partition that will not be opened."""
        self.topic_ids.pop(partition, None)
        found = self._found or {}
        return found.pop(partition) if partition in found else self.interrupted.pop(partition)

    def open(self) -> None:
        """Opens every partition. After a crash, scans unflushed data and reports progress."""
        if self._found is None:
            self.find()
        found = list((self._found or {}).items())
        now_ms = self._clock.now_ms()
        marker = self.disk.read_file(CLEAN_SHUTDOWN)
        clean = marker is not None
        if marker is not None:
            self.last_broker_epoch = decode_clean_shutdown(marker)
            # From now on any stop that is not clean counts as a crash.
            self.disk.remove(CLEAN_SHUTDOWN)
            self.disk.sync_directory()
        recovery_points = self._read_offsets(self.recovery_points)
        starts = self._read_offsets(self.log_starts)
        high_watermarks = self._read_offsets(self.high_watermarks)
        stopped = self._read_clean_stop() if clean else {}
        cleaner_offsets = self._read_cleaner_offsets()
        self.cleaner_offsets = cleaner_offsets or {}
        progress = RecoveryProgress(self.disk, self._clock, [] if clean else [path for _, path in found])

        def options_of(partition: TopicPartition) -> OpenOptions:
            end = stopped.get(partition)
            return OpenOptions(
                clean=clean,
                recovery_point=recovery_points.get(partition, 0),
                start_offset=starts.get(partition, 0),
                is_start_noted=partition in starts,
                log_bytes=None if end is None else end.log_bytes,
                end_offset=None if end is None else end.end_offset,
                high_watermark=high_watermarks.get(partition, 0),
                # Without the checkpoint, any gap may come from compaction.
                cleaned_to=MAX_INT64 if cleaner_offsets is None else cleaner_offsets.get(partition, 0),
                producer_expiration_ms=self._producer_expiration_ms,
                progress=progress.advance,
            )

        for partition, path in found:
            self._open_log(partition, path, options_of(partition), now_ms)
        self._interrupted_options = {partition: options_of(partition) for partition in self.interrupted}
        if any(
            self.logs[partition].durability.recovery_point < point
            for partition, point in recovery_points.items()
            if partition in self.logs
        ):
            # A log was truncated, possibly with a crash in between: the old recovery points are too high.
            self.checkpoint_recovery_points()
        noted = {*recovery_points, *starts, *high_watermarks, *self.cleaner_offsets}
        for partition in noted - self.logs.keys() - self.interrupted.keys():
            self._forget(partition)
        self.cleaner_offsets = {
            partition: offset for partition, offset in self.cleaner_offsets.items() if partition in self.logs
        }
        self.metrics.recovered_bytes = progress.done_bytes
        progress.finish(len(found))
        if cleaner_offsets is None:
            self.checkpoint_cleaner()

    def _open_log(self, partition: TopicPartition, path: str, options: OpenOptions, now_ms: int) -> Log:
        log = self.logs[partition] = self._open(partition[0], path, options, now_ms)
        return log

    def _open(self, topic: str, path: str, options: OpenOptions, now_ms: int) -> Log:
        return open_log(
            self.disk,
            path,
            self._config_of(topic),
            self._random,
            now_ms=now_ms,
            options=options,
            cache=self._cache,
            metrics=self.metrics,
            removals=self.removals,
        )

    def _read_offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read()
        except CorruptCheckpoint as error:
            # Without it recovery checks more than necessary, but nothing is lost.
            logger.error("Ignoring a damaged checkpoint in %s: %s", self.disk.root, error)
            return {}

    def _read_clean_stop(self) -> dict[TopicPartition, LogEnd]:
        try:
            return read_clean_stop(self.disk, self.last_broker_epoch)
        except CorruptCheckpoint as error:
            logger.error("Ignoring a damaged checkpoint in %s: %s", self.disk.root, error)
            return {}

    def _read_cleaner_offsets(self) -> dict[TopicPartition, int] | None:
        """None if it is unknown what was compacted. Kafka leaves the file empty until it is first written."""
        if not self.disk.read_file(CLEANER_OFFSETS):
            return None
        try:
            return self.cleaner_checkpoint.read()
        except CorruptCheckpoint as error:
            logger.error(
                "Ignoring a damaged cleaner checkpoint in %s; compaction starts from the beginning: %s",
                self.disk.root,
                error,
            )
            return None

    # Creating and deleting partitions

    def create(self, topic: str, partition: int, topic_id: Uuid, now_ms: int) -> Log:
        for checkpoint in self.checkpoints:
            if checkpoint.may_name_gone((topic, partition)):
                # A crash must not give the deleted partition's offsets to the new one.
                checkpoint.write(self._offsets(checkpoint))
        log = self.logs[topic, partition] = self._create_log(topic, directory_name(topic, partition), topic_id, now_ms)
        self.topic_ids[topic, partition] = topic_id
        return log

    def _create_log(self, topic: str, path: str, topic_id: Uuid, now_ms: int) -> Log:
        if self.disk.failure is not None:
            raise self.disk.failure.with_traceback(None)
        config = self._config_of(topic)
        return new_log(
            Place(self.disk, path, self._cache, config.index_interval_bytes),
            topic_id,
            config,
            self._random,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
            removals=self.removals,
        )

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Removes the partition at once; `purge` removes its files later."""
        log = self.logs.pop((topic, partition))
        self.topic_ids.pop((topic, partition), None)
        self.cleaner_offsets.pop((topic, partition), None)
        log.discard()
        # Not synced: until then a crash may bring the partition back, but the cluster's metadata knows that it was
        # deleted. A new partition of the same name becomes durable together with this: its first flush syncs the same
        # directory.
        if log.has_files:
            self._doom((topic, partition), log.directory, now_ms + log.config.file_delete_delay_ms)
        self._forget((topic, partition))

    def _doom(self, partition: TopicPartition, path: str, due_ms: int) -> None:
        doomed = marked_directory_name(*partition, self._unique_id(), DELETE_DIRECTORY)
        self.disk.rename(path, doomed)
        self.removals.add(due_ms, doomed, is_partition=True)

    def _unique_id(self) -> str:
        return f"{self._random.below(1 << 128):032x}"

    def _forget(self, partition: TopicPartition) -> None:
        for checkpoint in self.checkpoints:
            checkpoint.forget(partition)

    # Moving partitions in from another directory

    def create_future(self, topic: str, partition: int, topic_id: Uuid, now_ms: int) -> Log:
        """Creates an empty log that is not yet this directory's replica; `adopt_future` makes it so."""
        path = marked_directory_name(topic, partition, self._unique_id(), FUTURE_DIRECTORY)
        log = self.futures[topic, partition] = self._create_log(topic, path, topic_id, now_ms)
        return log

    def drop_future(self, topic: str, partition: int, now_ms: int) -> None:
        log = self.futures.pop((topic, partition))
        log.discard()
        if log.has_files:
            self._doom((topic, partition), log.directory, now_ms)

    def note_future(self, topic: str, partition: int, cleaned_to: int) -> None:
        """Makes the checkpoint entries that it will have after adoption durable. Its log is flushed; from now on it is
        the only replica."""
        key = (topic, partition)
        self.logs[key] = self.futures.pop(key)
        if cleaned_to:
            self.cleaner_offsets[key] = cleaned_to
        try:
            for checkpoint in (self.recovery_points, self.log_starts, self.cleaner_checkpoint):
                checkpoint.write(self._offsets(checkpoint))
            if self.high_watermarks.may_name_gone(key):
                self.high_watermarks.write(self._offsets(self.high_watermarks))
        except DiskError:
            self.take_back_future(topic, partition)
            raise

    def take_back_future(self, topic: str, partition: int) -> None:
        """Reverts: it does not become the replica after all."""
        key = (topic, partition)
        self.futures[key] = self.logs.pop(key)
        self.cleaner_offsets.pop(key, None)
        self._forget(key)

    def leave_future(self, topic: str, partition: int) -> None:
        """Leaves the future replica and its notes as they are: it may or may not be the only one."""
        key = (topic, partition)
        log = self.logs.pop(key)
        noted = {
            self.recovery_points: log.durability.recovery_point,
            self.high_watermarks: log.high_watermark,
            self.log_starts: log.start_offset,
        }
        if (cleaned_to := self.cleaner_offsets.pop(key, None)) is not None:
            noted[self.cleaner_checkpoint] = cleaned_to
        self._undecided[key] = noted
        log.release()

    def adopt_future(self, topic: str, partition: int, topic_id: Uuid, now_ms: int) -> Log:
        """Gives the future replica its final name. No other copy may exist."""
        key = (topic, partition)
        future = self.logs[key]
        future.release()
        self.removals.forget(future.directory)
        path = directory_name(topic, partition)
        self.disk.rename(future.directory, path)
        self.disk.sync_directory()
        options = OpenOptions(
            clean=True,
            recovery_point=future.durability.recovery_point,
            start_offset=future.start_offset,
            high_watermark=future.high_watermark,
            cleaned_to=self.cleaner_offsets.get(key, 0),
            producer_expiration_ms=self._producer_expiration_ms,
        )
        log = self.logs[key] = self._open(topic, path, options, now_ms)
        # They know the last batches of each producer; the state just loaded has only the last one.
        log.producers = future.producers
        self.topic_ids[key] = topic_id
        return log

    def open_interrupted(self, topic: str, partition: int) -> None:
        """Opens a future replica that was adopted except for its name when the node crashed."""
        key, path = (topic, partition), directory_name(topic, partition)
        self.disk.rename(self.interrupted.pop(key), path)
        self.disk.sync_directory()
        options = self._interrupted_options[key]
        self._open_log(key, path, options, self._clock.now_ms())
        if 0 < options.cleaned_to < MAX_INT64:
            self.cleaner_offsets[key] = options.cleaned_to

    def leave_interrupted(self, topic: str, partition: int) -> None:
        """Leaves it: it cannot be determined now whether another copy exists."""
        key = (topic, partition)
        del self.interrupted[key]
        options = self._interrupted_options[key]
        noted = {
            self.recovery_points: options.recovery_point,
            self.log_starts: options.start_offset,
            self.high_watermarks: options.high_watermark,
            self.cleaner_checkpoint: options.cleaned_to,
        }
        self._undecided[key] = {checkpoint: offset for checkpoint, offset in noted.items() if 0 < offset < MAX_INT64}

    def doom_interrupted(self, topic: str, partition: int) -> None:
        self._forget((topic, partition))
        self._doom((topic, partition), self.interrupted[topic, partition], self._clock.now_ms())

    def truncate(self, topic: str, partition: int, offset: int, now_ms: int) -> None:
        """Truncates a follower's log and writes the recovery points at once, because one may have decreased."""
        if self.logs[topic, partition].truncate_to(offset, now_ms):
            self._checkpoint_truncation((topic, partition))

    def truncate_fully(self, topic: str, partition: int, offset: int, now_ms: int) -> None:
        """Deletes all of a follower's log, which restarts at `offset`, and updates the checkpoints."""
        self.logs[topic, partition].truncate_fully(offset, now_ms)
        self._checkpoint_truncation((topic, partition))

    def _checkpoint_truncation(self, partition: TopicPartition) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_starts()
        end_offset = self.logs[partition].end_offset
        if self.cleaner_offsets.get(partition, 0) > end_offset:
            # Anything written from there on is dirty.
            self.cleaner_offsets[partition] = end_offset
            self.checkpoint_cleaner()

    def purge(self, now_ms: int) -> None:
        """Removes the files of deletions that are due."""
        do_all(self.removals.purging(now_ms))

    # Checkpoints

    def checkpoint(self) -> None:
        for checkpoint in self.checkpoints:
            checkpoint.write(self._offsets(checkpoint))

    def checkpoint_recovery_points(self) -> None:
        self.recovery_points.write(self._offsets(self.recovery_points))

    def checkpoint_starts(self) -> None:
        self.log_starts.write(self._offsets(self.log_starts))

    def checkpoint_cleaner(self) -> None:
        self.cleaner_checkpoint.write(self._offsets(self.cleaner_checkpoint))

    def _offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        kept = self._undecided_offsets(checkpoint)
        if checkpoint is self.cleaner_checkpoint:
            return kept | self.cleaner_offsets
        offset_of = self._offset_of(checkpoint)
        return kept | {partition: offset_of(log) for partition, log in self.logs.items() if log.has_files}

    def _undecided_offsets(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        return {partition: noted[checkpoint] for partition, noted in self._undecided.items() if checkpoint in noted}

    def _offset_of(self, checkpoint: OffsetCheckpoint) -> Callable[[Log], int]:
        if checkpoint is self.recovery_points:
            return _recovery_point
        return _start_offset if checkpoint is self.log_starts else _high_watermark

    def checkpointing(self, *checkpoints: OffsetCheckpoint) -> Steps[None]:
        """Writes the checkpoints that have changed.

        A gathered recovery point may be outdated when it is written, but never ahead of what was flushed: it decreases
        only with a truncation, which writes the file at once and thereby cancels this.
        """
        drafts = [checkpoint.begin() for checkpoint in checkpoints]
        for checkpoint, draft in zip(checkpoints, drafts, strict=True):
            draft.offsets.update(self._undecided_offsets(checkpoint))
            if checkpoint is self.cleaner_checkpoint:
                draft.offsets.update(self.cleaner_offsets)
        walked = [
            (draft.offsets, self._offset_of(checkpoint))
            for checkpoint, draft in zip(checkpoints, drafts, strict=True)
            if checkpoint is not self.cleaner_checkpoint
        ]
        if walked:
            for number, (partition, log) in enumerate(list(self.logs.items()), start=1):
                if log.has_files and self.logs.get(partition) is log:
                    for offsets, offset_of in walked:
                        offsets[partition] = offset_of(log)
                if number % _LOOKS_PER_STEP == 0:
                    yield 1
        for checkpoint, draft in zip(checkpoints, drafts, strict=True):
            yield from checkpoint.writing(draft)

    def close(self, broker_epoch: int = -1) -> None:
        """Clean shutdown: the next start reads checkpoints only."""
        for log in self.logs.values():
            log.write_out()
        do_all(self.removals.purging(None))
        self.disk.sync_all()
        for log in self.logs.values():
            log.durability.synced_to(log.end_offset)
            log.release()
        for log in self.futures.values():
            log.release()
        self.checkpoint()
        ends = {key: LogEnd(log.end_offset, log.size) for key, log in self.logs.items() if log.has_files}
        write_clean_stop(self.disk, broker_epoch, ends)
        self.disk.write_file(CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))
        self.disk.close()


def _recovery_point(log: Log) -> int:
    return log.durability.recovery_point


def _high_watermark(log: Log) -> int:
    return log.high_watermark


def _start_offset(log: Log) -> int:
    """Also recorded if it is the first segment's, which Kafka omits: so a missing segment is detected."""
    return log.start_offset
