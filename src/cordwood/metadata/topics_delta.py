"""Changes of the topics: the part of a delta that may be large."""

from dataclasses import dataclass, field, replace

from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.primitives import Uuid, uuid_text

from .exceptions import InvalidMetadata
from .image import (
    MIGRATING_DIRECTORY,
    LeaderRecovery,
    PartitionRegistration,
    Topic,
    Topics,
    has_collision_chars,
    unify_collision_chars,
)

_NO_LEADER_CHANGE = -2
_NO_RECOVERY_CHANGE = -1

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class TopicChange:
    """One topic: as it was (empty if it is new), and its partitions that are new or changed."""

    before: Topic
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        return self.partitions.get(partition_id) or self.before.partitions.get(partition_id)

    def after(self) -> Topic:
        if not self.partitions:
            return self.before
        editor = self.before.partitions.edit()
        for partition_id, partition in self.partitions.items():
            editor[partition_id] = partition
        return Topic(self.before.name, self.before.id, editor.finish())


@dataclass(frozen=True, slots=True)
class PartitionChange:
    topic_id: Uuid
    # None: there was none.
    before: PartitionRegistration | None
    after: PartitionRegistration


@dataclass(frozen=True, slots=True)
class ReplicaChanges:
    """The changes for a broker, to be applied in this order, because a topic may be deleted and recreated in one
    batch."""

    deleted: dict[TopicPartition, Uuid]
    leading: dict[TopicPartition, PartitionChange]
    following: dict[TopicPartition, PartitionChange]
    # Those among the deleted that other brokers go on with: a reassignment has taken this one's replica.
    moved: set[TopicPartition] = field(default_factory=set)


class TopicsDelta:
    def __init__(self, topics: Topics) -> None:
        self._before = topics
        # New topics and those with a new or changed partition.
        self.changed: dict[Uuid, TopicChange] = {}
        self.created: dict[Uuid, str] = {}
        self._created_ids: dict[str, Uuid] = {}
        # Only topics that were in the image; one that was made and deleted again left no trace.
        self.deleted: dict[Uuid, Topic] = {}

    def topic_id(self, name: str) -> Uuid | None:
        """As of the records replayed so far."""
        topic_id = self._created_ids.get(name) or self._before.ids.get(name)
        return None if topic_id in self.deleted else topic_id

    # Replaying

    def create(self, record: TopicRecord) -> None:
        if self.topic_id(record.name) is not None or record.topic_id in self.created:
            raise InvalidMetadata(f"topic {record.name} ({uuid_text(record.topic_id)}) is created twice")
        self.changed[record.topic_id] = TopicChange(Topic(record.name, record.topic_id))
        self.created[record.topic_id] = record.name
        self._created_ids[record.name] = record.topic_id

    def set_partition(self, record: PartitionRecord) -> None:
        change = self._change(record.topic_id)
        change.partitions[record.partition_id] = PartitionRegistration(
            tuple(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            _directories(record.directories, len(record.replicas)),
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            LeaderRecovery(record.leader_recovery_state),
        )

    def change_partition(self, record: PartitionChangeRecord) -> None:
        change = self._change(record.topic_id)
        partition = change.partition(record.partition_id)
        if partition is None:
            raise InvalidMetadata(f"there is no partition {record.partition_id} of {change.before.name} to change")
        change.partitions[record.partition_id] = merge(partition, record)

    def remove(self, record: RemoveTopicRecord) -> str:
        """The topic's name."""
        topic_id = record.topic_id
        name = self._change(topic_id).before.name
        del self.changed[topic_id]
        if topic_id in self.created:
            del self.created[topic_id], self._created_ids[name]
        else:
            self.deleted[topic_id] = self._before.by_id[topic_id]
        return name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Clears the eligible replicas of one topic or all, since they depend on an old `min.insync.replicas`
        (KIP-966)."""
        if record.topic_name:
            topic_id = self.topic_id(record.topic_name)
            if topic_id is None:
                raise InvalidMetadata(f"there is no topic {record.topic_name} to clear eligible leader replicas of")
            topic_ids = [topic_id]
        else:
            topic_ids = [*self._before.by_id, *self.created]
        for topic_id in topic_ids:
            if topic_id not in self.deleted:
                self._clear_topics_elr(topic_id)

    def _clear_topics_elr(self, topic_id: Uuid) -> None:
        topic = self.changed[topic_id].after() if topic_id in self.changed else self._before.by_id[topic_id]
        for partition_id, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                cleared = replace(partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)
                self._change(topic_id).partitions[partition_id] = cleared

    def _change(self, topic_id: Uuid) -> TopicChange:
        change = self.changed.get(topic_id)
        if change is None:
            topic = self._before.by_id.get(topic_id)
            if topic is None or topic_id in self.deleted:
                raise InvalidMetadata(f"there is no topic with id {uuid_text(topic_id)}")
            change = self.changed[topic_id] = TopicChange(topic)
        return change

    # Results

    def apply(self) -> Topics:
        if not self.changed and not self.deleted:
            return self._before
        by_id = self._before.by_id.edit()
        for topic_id in self.deleted:
            del by_id[topic_id]
        for topic_id, change in self.changed.items():
            by_id[topic_id] = change.after()
        if not self.created and not self.deleted:
            return Topics(by_id.finish(), self._before.ids, self._before.colliding)

        ids, colliding = self._before.ids.edit(), self._before.colliding.edit()
        for topic in self.deleted.values():
            del ids[topic.name]
            if has_collision_chars(topic.name):
                unified = unify_collision_chars(topic.name)
                left = tuple(name for name in colliding.get(unified) or () if name != topic.name)
                if left:
                    colliding[unified] = left
                else:
                    del colliding[unified]
        for topic_id, name in self.created.items():
            ids[name] = topic_id
            if has_collision_chars(name):
                unified = unify_collision_chars(name)
                colliding[unified] = (*(colliding.get(unified) or ()), name)
        return Topics(by_id.finish(), ids.finish(), colliding.finish())

    def replica_changes(self, broker_id: int) -> ReplicaChanges:
        """The changes that a broker with replicas must act on."""
        changes = ReplicaChanges({}, {}, {})
        for topic in self.deleted.values():
            for partition_id, partition in topic.partitions.items():
                if broker_id in partition.replicas:
                    changes.deleted[topic.name, partition_id] = topic.id
        for topic_id, change in self.changed.items():
            for partition_id, partition in change.partitions.items():
                before = change.before.partitions.get(partition_id)
                key = (change.before.name, partition_id)
                if broker_id not in partition.replicas:
                    if before is not None and broker_id in before.replicas:
                        changes.deleted[key] = topic_id
                        changes.moved.add(key)
                elif before is None or before.partition_epoch != partition.partition_epoch:
                    mine = changes.leading if partition.leader == broker_id else changes.following
                    mine[key] = PartitionChange(topic_id, before, partition)
        return changes


def merge(partition: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """A change record has only the changed fields. A leader field, even with the same leader, begins a new leader
    epoch."""
    is_elected = record.leader != _NO_LEADER_CHANGE
    replicas = _or(record.replicas, partition.replicas)
    return PartitionRegistration(
        replicas,
        _or(record.isr, partition.isr),
        record.leader if is_elected else partition.leader,
        partition.leader_epoch + 1 if is_elected else partition.leader_epoch,
        partition.partition_epoch + 1,
        partition.directories if record.directories is None else _directories(record.directories, len(replicas)),
        _or(record.adding_replicas, partition.adding_replicas),
        _or(record.removing_replicas, partition.removing_replicas),
        _or(record.eligible_leader_replicas, partition.elr),
        _or(record.last_known_elr, partition.last_known_elr),
        partition.leader_recovery
        if record.leader_recovery_state == _NO_RECOVERY_CHANGE
        else LeaderRecovery(record.leader_recovery_state),
    )


def _or(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _directories(directories: list[Uuid], replicas: int) -> tuple[Uuid, ...]:
    """Records of before KIP-858 name none: the brokers say later where their replicas are."""
    return tuple(directories) if directories else (MIGRATING_DIRECTORY,) * replicas
