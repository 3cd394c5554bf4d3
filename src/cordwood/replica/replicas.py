"""All partitions of this broker: made, changed and removed as the metadata says, and taken offline with their disks."""

import logging
from collections.abc import Callable, Iterable, Iterator

from cordwood.config.topic import TopicConfigs
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import NO_ID, LogDirectory, TopicPartition
from cordwood.log.log import Log
from cordwood.metadata.image import MetadataImage, is_reserved_directory
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.metadata.topics_delta import ReplicaChanges
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from .flusher import Flusher
from .leader import ProposeIsr, RegistrationChanged
from .partition import Partition, Replication
from .traffic import TopicTraffic

_log = logging.getLogger(__name__)


class Replicas:
    def __init__(
        self,
        broker_id: int,
        directories: LogDirectories,
        configs: TopicConfigs,
        clock: Clock,
        lag_time_max_ms: int,
        backoff_ms: int,
        *,
        counts_traffic: bool = False,
        on_offline: Callable[[LogDirectory, DiskError], None] = lambda _directory, _error: None,
        on_placed: Callable[[Partition, LogDirectory], None] = lambda _partition, _directory: None,
        on_isr_proposal: Callable[[Partition, ProposeIsr], None] = lambda _partition, _proposal: None,
    ) -> None:
        """`on_offline` is called when a directory goes offline, `on_placed` when a partition lies in another one than
        the metadata says, `on_isr_proposal` with a change of an in-sync set that the controller is to decide."""
        self.directories = directories
        self.flusher = Flusher(clock, self.disk_failed)
        # Called before the files of a partition are deleted.
        self.on_delete: list[Callable[[TopicPartition], None]] = []
        self.on_offline = on_offline
        self.on_placed = on_placed
        self._broker_id = broker_id
        self._configs = configs
        self._clock = clock
        self._replication = Replication(lag_time_max_ms, backoff_ms, on_isr_proposal)
        self._partitions: dict[TopicPartition, Partition] = {}
        # By topic; None unless traffic is counted.
        self.traffic: dict[str, TopicTraffic] | None = {} if counts_traffic else None
        # Directories that have another id than the metadata knows them by.
        self._former_ids: dict[Uuid, LogDirectory] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def _traffic_of(self, topic: str) -> TopicTraffic | None:
        return None if self.traffic is None else self.traffic.setdefault(topic, TopicTraffic())

    # Following the metadata

    def load(self, image: MetadataImage) -> None:
        """Opens this broker's partitions at a start. Others in its directories were set aside before (see `strays`)."""
        self._former_ids = self._find_former_ids(image)
        for known in image.topics:
            for index, state in known.partitions.items():
                if self._broker_id in state.replicas:
                    self._place(known.name, index, known.id, state, is_new=False)

    def _find_former_ids(self, image: MetadataImage) -> dict[Uuid, LogDirectory]:
        """Finds the former ids of directories whose `meta.properties` were damaged or rewritten: the new id isn't
        registered yet, and the metadata assigns their partitions, even those without files, to the old one."""
        broker = image.brokers.get(self._broker_id)
        former: dict[Uuid, LogDirectory] = {}
        for directory in self.directories.online:
            if broker is None or directory.id in (NO_ID, *broker.log_dirs):
                continue
            states = (image.topics.partition(topic, index) for topic, index in directory.logs)
            assigned = {state.directory_of(self._broker_id) for state in states if state is not None}
            old = assigned.pop() if len(assigned) == 1 else NO_ID
            if old in broker.log_dirs and self.directories.with_id(old) is None and old not in former:
                _log.warning("%s has another directory.id than the metadata knows it by", directory.disk.root)
                former[old] = directory
        return former

    def apply(self, changes: ReplicaChanges) -> None:
        for topic, index in changes.deleted:
            self._remove(topic, index, is_moved=(topic, index) in changes.moved)
        if changes.deleted and self.traffic is not None:
            left = {topic for topic, _ in self._partitions}
            self.traffic = {topic: traffic for topic, traffic in self.traffic.items() if topic in left}
        for (topic, index), change in (*changes.leading.items(), *changes.following.items()):
            partition = self._partitions.get((topic, index))
            if partition is None or partition.topic_id != change.topic_id:
                self._place(topic, index, change.topic_id, change.after, is_new=change.before is None)
            else:
                partition.update(change.after, self._configs.of(topic))
                if partition.log is None:
                    self._place_again(partition)

    def broker_changed(self, event: RegistrationChanged) -> None:
        for partition in self:
            partition.broker_changed(event)

    def _place(self, topic: str, index: int, topic_id: Uuid, state: PartitionState, *, is_new: bool) -> None:
        log = self._find_or_create(topic, index, topic_id, state, is_new=is_new)
        partition = Partition(
            topic,
            index,
            topic_id,
            self._broker_id,
            state,
            log,
            self._configs.of(topic),
            self._clock,
            self._replication,
            self.flusher.request,
        )
        partition.traffic = self._traffic_of(topic)
        self._partitions[topic, index] = partition
        if log is not None:
            directory = self.directories.directory_of(topic, index)
            if directory is not None and directory.id not in (NO_ID, state.directory_of(self._broker_id)):
                self.on_placed(partition, directory)
            if partition.is_leader:
                partition.flushed()

    def _place_again(self, partition: Partition) -> None:
        """A partition of a lost directory that was in sync when the broker started: once the controller counts it as
        out of sync, a new log may replace the lost one."""
        topic, index = partition.topic, partition.index
        log = self._find_or_create(topic, index, partition.topic_id, partition.state, is_new=False)
        directory = self.directories.directory_of(topic, index)
        if log is not None and directory is not None:
            partition.replace_log(log)
            self.on_placed(partition, directory)

    def _find_or_create(
        self, topic: str, index: int, topic_id: Uuid, state: PartitionState, *, is_new: bool
    ) -> Log | None:
        log = self.directories.log(topic, index)
        if log is not None:
            return log
        directory = self._directory_for(state, is_new=is_new)
        if directory is None:
            return None
        lost_to = 0 if is_new else max(each.checkpoints.noted_end((topic, index)) for each in self.directories.online)
        if lost_to:
            _log.error(
                "%s-%d is missing, with offsets up to %d: starting over with an empty log", topic, index, lost_to - 1
            )
        try:
            return directory.create(topic, index, topic_id, self._clock.now_ms())
        except DiskError as error:
            self.disk_failed(error)
            return None

    def _directory_for(self, state: PartitionState, *, is_new: bool) -> LogDirectory | None:
        """The directory for a new log of a partition that is in no online directory. None: it may be in an offline one,
        and an empty log in its place would be a loss."""
        assigned = state.directory_of(self._broker_id)
        directory = self.directories.with_id(assigned) or self._former_ids.get(assigned)
        if directory is not None:
            return None if directory.is_offline else directory
        if not is_reserved_directory(assigned):
            # A directory that is not there any more: another takes its place if others have the data.
            is_needed = self._broker_id in (*state.isr, *state.elr, *state.last_known_elr)
        else:
            is_needed = not is_new and len(self.directories.online) < len(self.directories.directories)
        return None if is_needed else self.directories.emptiest

    def _remove(self, topic: str, index: int, *, is_moved: bool) -> None:
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            partition.removed(ErrorCode.NOT_LEADER_OR_FOLLOWER if is_moved else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        directory = self.directories.directory_of(topic, index)
        if directory is not None:
            self._delete(directory, topic, index)

    def _delete(self, directory: LogDirectory, topic: str, index: int) -> None:
        for listener in self.on_delete:
            listener((topic, index))
        try:
            directory.delete(topic, index, self._clock.now_ms())
        except DiskError as error:
            self.disk_failed(error)

    def configure(self, topic: str, indexes: Iterable[int]) -> None:
        """The configuration of a topic has changed, which has these partitions. This broker may have any of them."""
        config = self._configs.of(topic)
        for index in indexes:
            partition = self._partitions.get((topic, index))
            if partition is not None:
                partition.configure(config)

    def configure_all(self) -> None:
        for partition in self:
            partition.configure(self._configs.of(partition.topic))

    # Disks that fail

    def disk_failed(self, error: DiskError) -> None:
        """Takes the directory offline that an error came from; once is enough."""
        for directory in self.directories.directories:
            if directory.disk.root == error.root:
                lost = [self._partitions[key] for key in directory.logs if key in self._partitions]
                if self.directories.take_offline(directory, error):
                    for partition in lost:
                        partition.go_offline()
                    self.on_offline(directory, error)
