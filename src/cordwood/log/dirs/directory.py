"""A log directory: the partitions on one disk. It opens, stops and fails as a whole."""

import logging
from collections.abc import Callable

from cordwood.log.checkpoints.clean_stop import LogEnd, write_clean_stop
from cordwood.log.checkpoints.formats import (
    CLEAN_SHUTDOWN,
    CorruptCheckpoint,
    decode_clean_shutdown,
    decode_partition_metadata,
    encode_clean_shutdown,
)
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
from cordwood.log.steps import do_all
from cordwood.log.storage.index import IndexCache, Place
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.randomness import Random
from cordwood.wire.primitives import Uuid

from .checkpoints import DirectoryCheckpoints
from .contents import METADATA_PARTITION as METADATA_PARTITION
from .contents import Kind, folders
from .recovery_progress import RecoveryProgress

logger = logging.getLogger(__name__)

# The id of a directory that belongs to no cluster.
NO_ID: Uuid = bytes(16)


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
        self.checkpoints = DirectoryCheckpoints(disk, self.logs)

    @property
    def is_offline(self) -> bool:
        return self.disk.failure is not None

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
        noted = self.checkpoints.read(self.last_broker_epoch if clean else None)
        progress = RecoveryProgress(self.disk, self._clock, [] if clean else [path for _, path in found])

        def options_of(partition: TopicPartition) -> OpenOptions:
            return noted.options(
                partition,
                clean=clean,
                producer_expiration_ms=self._producer_expiration_ms,
                progress=progress.advance,
            )

        for partition, path in found:
            self._open_log(partition, path, options_of(partition), now_ms)
        self._interrupted_options = {partition: options_of(partition) for partition in self.interrupted}
        if any(
            self.logs[partition].durability.recovery_point < point
            for partition, point in noted.recovery_points.items()
            if partition in self.logs
        ):
            # A log was truncated, possibly with a crash in between: the old recovery points are too high.
            self.checkpoints.write(self.checkpoints.recovery_points)
        for partition in noted.partitions - self.logs.keys() - self.interrupted.keys():
            self.checkpoints.forget(partition)
        cleaner_offsets = self.checkpoints.cleaner_offsets
        for partition in cleaner_offsets.keys() - self.logs.keys():
            del cleaner_offsets[partition]
        self.metrics.recovered_bytes = progress.done_bytes
        progress.finish(len(found))
        if noted.cleaner_offsets is None:
            self.checkpoints.write(self.checkpoints.cleaner)

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

    # Creating and deleting partitions

    def create(self, topic: str, partition: int, topic_id: Uuid, now_ms: int) -> Log:
        self.checkpoints.separate((topic, partition))
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
        self.checkpoints.cleaner_offsets.pop((topic, partition), None)
        log.discard()
        # Not synced: until then a crash may bring the partition back, but the cluster's metadata knows that it was
        # deleted. A new partition of the same name becomes durable together with this: its first flush syncs the same
        # directory.
        if log.has_files:
            self._doom((topic, partition), log.directory, now_ms + log.config.file_delete_delay_ms)
        self.checkpoints.forget((topic, partition))

    def _doom(self, partition: TopicPartition, path: str, due_ms: int) -> None:
        doomed = marked_directory_name(*partition, self._unique_id(), DELETE_DIRECTORY)
        self.disk.rename(path, doomed)
        self.removals.add(due_ms, doomed, is_partition=True)

    def _unique_id(self) -> str:
        return f"{self._random.below(1 << 128):032x}"

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
            self.checkpoints.cleaner_offsets[key] = cleaned_to
        try:
            checkpoints = self.checkpoints
            checkpoints.write(checkpoints.recovery_points, checkpoints.log_starts, checkpoints.cleaner)
            checkpoints.separate(key)
        except DiskError:
            self.take_back_future(topic, partition)
            raise

    def take_back_future(self, topic: str, partition: int) -> None:
        """Reverts: it does not become the replica after all."""
        key = (topic, partition)
        self.futures[key] = self.logs.pop(key)
        self.checkpoints.cleaner_offsets.pop(key, None)
        self.checkpoints.forget(key)

    def leave_future(self, topic: str, partition: int) -> None:
        """Leaves the future replica and its notes as they are: it may or may not be the only one."""
        key = (topic, partition)
        log = self.logs.pop(key)
        noted = {
            self.checkpoints.recovery_points: log.durability.recovery_point,
            self.checkpoints.high_watermarks: log.high_watermark,
            self.checkpoints.log_starts: log.start_offset,
        }
        if (cleaned_to := self.checkpoints.cleaner_offsets.pop(key, None)) is not None:
            noted[self.checkpoints.cleaner] = cleaned_to
        self.checkpoints.keep(key, noted)
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
            cleaned_to=self.checkpoints.cleaner_offsets.get(key, 0),
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
            self.checkpoints.cleaner_offsets[key] = options.cleaned_to

    def leave_interrupted(self, topic: str, partition: int) -> None:
        """Leaves it: it cannot be determined now whether another copy exists."""
        key = (topic, partition)
        del self.interrupted[key]
        options = self._interrupted_options[key]
        noted = {
            self.checkpoints.recovery_points: options.recovery_point,
            self.checkpoints.log_starts: options.start_offset,
            self.checkpoints.high_watermarks: options.high_watermark,
            self.checkpoints.cleaner: options.cleaned_to,
        }
        self.checkpoints.keep(
            key, {checkpoint: offset for checkpoint, offset in noted.items() if 0 < offset < MAX_INT64}
        )

    def doom_interrupted(self, topic: str, partition: int) -> None:
        self.checkpoints.forget((topic, partition))
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
        self.checkpoints.write(self.checkpoints.recovery_points, self.checkpoints.log_starts)
        end_offset = self.logs[partition].end_offset
        if self.checkpoints.cleaner_offsets.get(partition, 0) > end_offset:
            # Anything written from there on is dirty.
            self.checkpoints.cleaner_offsets[partition] = end_offset
            self.checkpoints.write(self.checkpoints.cleaner)

    def purge(self, now_ms: int) -> None:
        """Removes the files of deletions that are due."""
        do_all(self.removals.purging(now_ms))

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
        self.checkpoints.write_all()
        ends = {key: LogEnd(log.end_offset, log.size) for key, log in self.logs.items() if log.has_files}
        write_clean_stop(self.disk, broker_epoch, ends)
        self.disk.write_file(CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))
        self.disk.close()
