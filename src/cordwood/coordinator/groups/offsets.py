"""The committed offsets of a shard's groups, and those pending in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from cordwood.wire.primitives import ZERO_UUID, Uuid


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    # Expiry time if the commit had one (up to version 4); -1 otherwise.
    expire_ms: int
    # All zeros if the commit did not include it.
    topic_id: Uuid
    # The commit's offset in the log.
    record_offset: int


OffsetsByTopic = dict[str, dict[int, CommittedOffset]]


class Offsets:
    """Committed offsets by group, topic and partition. Offsets committed in a transaction are kept by producer id until
    its marker arrives."""

    def __init__(self) -> None:
        self.by_group: dict[str, OffsetsByTopic] = {}
        self._pending: dict[int, dict[str, OffsetsByTopic]] = {}
        # Producers with pending offsets, by group.
        self._open: dict[str, set[int]] = {}

    # Look-ups

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> OffsetsByTopic:
        return self.by_group.get(group_id, _NONE)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """True if an ongoing transaction commits an offset of this partition."""
        return group_id in self._open and any(
            partition in topics.get(topic, ()) for topics in self._pending_of(group_id)
        )

    def of_topic(self, group_id: str, topic: str) -> list[tuple[int, CommittedOffset]]:
        """Yields each partition once, including pending ones."""
        found = dict(self.of_group(group_id).get(topic, {}))
        for topics in self._pending_of(group_id):
            found = {**topics.get(topic, {}), **found}
        return list(found.items())

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Yields every partition with an offset, including pending ones, once."""
        found = {(topic, index): None for topic, indexes in self.of_group(group_id).items() for index in indexes}
        for topics in self._pending_of(group_id):
            found |= {(topic, index): None for topic, indexes in topics.items() for index in indexes}
        return list(found)

    def groups_with(self, topic: str) -> list[str]:
        """Returns the groups with an offset of the topic, including pending ones."""
        found = {group_id: None for group_id, topics in self.by_group.items() if topic in topics}
        for group_id in self._open:
            if any(topics.get(topic) for topics in self._pending_of(group_id)):
                found[group_id] = None
        return list(found)

    def _pending_of(self, group_id: str) -> Iterator[OffsetsByTopic]:
        for producer_id in self._open.get(group_id, ()):
            yield self._pending[producer_id][group_id]

    # Replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            offset,
        )
        self._add(key, committed, producer_id)

    def replay_legacy(
        self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return
        committed = CommittedOffset(value.offset, -1, value.metadata, value.commit_timestamp, -1, ZERO_UUID, offset)
        self._add(key, committed, producer_id)

    def _add(self, key: OffsetCommitKey | LegacyOffsetCommitKey, committed: CommittedOffset, producer_id: int) -> None:
        if producer_id == -1:
            by_group = self.by_group
        else:
            by_group = self._pending.setdefault(producer_id, {})
            self._open.setdefault(key.group, set()).add(producer_id)
        topics = by_group.get(key.group)
        if topics is None:
            topics = by_group[key.group] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        partitions[key.partition] = committed

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        _take(self.by_group, group_id, topic, partition)
        for producer_id in self._open.get(group_id, ()):
            # For the group the transaction stays open until its marker, even if no offset is left in it.
            self._pending[producer_id][group_id].get(topic, {}).pop(partition, None)

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            producers = self._open[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]
            if commit:
                for topic, partitions in topics.items():
                    for partition, offset in partitions.items():
                        self._commit(group_id, topic, partition, offset)

    def _commit(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        # The later record wins, not the later end of a transaction, in line with compaction.
        before = self.get(group_id, topic, partition)
        if before is None or offset.record_offset > before.record_offset:
            self.by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


_NONE: OffsetsByTopic = {}


def _take(by_group: dict[str, OffsetsByTopic], group_id: str, topic: str, partition: int) -> None:
    """Removes an offset, and containers that become empty."""
    topics = by_group.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None or partitions.pop(partition, None) is None:
        return
    if not partitions:
        del topics[topic]
        if not topics:
            del by_group[group_id]
