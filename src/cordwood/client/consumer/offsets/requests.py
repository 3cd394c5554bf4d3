"""Offset requests to a coordinator, by version; sans-IO.

OffsetCommit and OffsetFetch use topic names, and from version 10 on ids (KIP-848), which requires the metadata of all
topics. OffsetFetch supports several groups from version 8 on.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import BrokerError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.net.peers.versions import PeerVersions
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from cordwood.wire.primitives import ZERO_UUID, Uuid

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
TopicIds = Mapping[str, Uuid]

_BY_TOPIC_ID = 10
# The first version of OffsetCommit with the static member's id (KIP-345).
_WITH_INSTANCE_ID = 7
# The first version of OffsetFetch that waits for transactions (KIP-447), and the first for several groups.
_REQUIRE_STABLE = 7
_BATCHED = 8
_NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A request, its version, and the names of its topic ids."""

    request: OffsetCommitRequest
    version: int
    names: Mapping[Uuid, str]

    @classmethod
    def of(cls, sender: GroupMetadata, offsets: Offsets, ids: TopicIds, versions: PeerVersions) -> "CommitRequest":
        """`ids` come from the metadata; names are used if one of them is missing."""
        version = _version(versions.best(OffsetCommitRequest), _topics(offsets), ids)
        topics = []
        for topic, partitions in _by_topic(offsets).items():
            commits = [_commit(partition.partition, offsets[partition]) for partition in partitions]
            if version >= _BY_TOPIC_ID:
                topics.append(OffsetCommitRequestTopic(topic_id=ids[topic], partitions=commits))
            else:
                topics.append(OffsetCommitRequestTopic(name=topic, partitions=commits))
        request = OffsetCommitRequest(
            group_id=sender.group_id,
            generation_id_or_member_epoch=sender.generation_id,
            member_id=sender.member_id,
            group_instance_id=sender.group_instance_id if version >= _WITH_INSTANCE_ID else None,
            topics=topics,
        )
        return cls(request, version, {ids[topic]: topic for topic in _topics(offsets) if topic in ids})

    def read(self, response: OffsetCommitResponse) -> dict[TopicPartition, BrokerError | None]:
        """Returns the result for each partition; None is success."""
        results: dict[TopicPartition, BrokerError | None] = {}
        for topic in response.topics:
            name = topic.name if self.version < _BY_TOPIC_ID else self.names.get(topic.topic_id)
            if name is None:
                continue
            for told in topic.partitions:
                partition = TopicPartition(name, told.partition_index)
                results[partition] = _error(told.error_code, partition)
        return results


@dataclass(frozen=True, slots=True)
class CommittedRequest:
    """A request for a group's committed offsets of some partitions."""

    request: OffsetFetchRequest
    version: int
    names: Mapping[Uuid, str]

    @classmethod
    def of(
        cls,
        sender: GroupMetadata,
        partitions: Collection[TopicPartition],
        ids: TopicIds,
        versions: PeerVersions,
        *,
        as_member: bool,
    ) -> "CommittedRequest":
        """`as_member` names the member (KIP-848), so that a removed one gets an error.

        Always waits for open transactions, if the broker can (KIP-447): resuming from an older offset would repeat
        their work.
        """
        version = _version(versions.best(OffsetFetchRequest), {partition.topic for partition in partitions}, ids)
        indexes = {topic: [partition.partition for partition in some] for topic, some in _by_topic(partitions).items()}
        request = OffsetFetchRequest(require_stable=version >= _REQUIRE_STABLE)
        if version < _BATCHED:
            request.group_id = sender.group_id
            request.topics = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=some) for topic, some in indexes.items()
            ]
        else:
            group = OffsetFetchRequestGroup(group_id=sender.group_id)
            if as_member:
                group.member_id, group.member_epoch = sender.member_id, sender.generation_id
            group.topics = [
                OffsetFetchRequestTopics(topic_id=ids[topic], partition_indexes=some)
                if version >= _BY_TOPIC_ID
                else OffsetFetchRequestTopics(name=topic, partition_indexes=some)
                for topic, some in indexes.items()
            ]
            request.groups = [group]
        return cls(request, version, {ids[topic]: topic for topic in indexes if topic in ids})

    def read(self, response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None without a committed offset. Raises an error of the group or of one of the partitions."""
        if self.version < _BATCHED:
            _check(response.error_code, "the group")
            return {
                TopicPartition(topic.name, told.partition_index): _committed(topic.name, told)
                for topic in response.topics
                for told in topic.partitions
            }
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for group in response.groups:
            _check(group.error_code, f"group {group.group_id}")
            for topics in group.topics:
                name = topics.name if self.version < _BY_TOPIC_ID else self.names.get(topics.topic_id)
                if name is not None:
                    for one in topics.partitions:
                        offsets[TopicPartition(name, one.partition_index)] = _committed(name, one)
        return offsets


def _version(best: int, topics: Iterable[str], ids: TopicIds) -> int:
    if best >= _BY_TOPIC_ID and any(ids.get(topic, ZERO_UUID) == ZERO_UUID for topic in topics):
        return _BY_TOPIC_ID - 1
    return best


def _topics(offsets: Offsets) -> set[str]:
    return {partition.topic for partition in offsets}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        grouped.setdefault(partition.topic, []).append(partition)
    return grouped


def _commit(index: int, commit: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=_NO_LEADER_EPOCH if commit.leader_epoch is None else commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _committed(
    topic: str, told: OffsetFetchResponsePartition | OffsetFetchResponsePartitions
) -> OffsetAndMetadata | None:
    _check(told.error_code, f"{topic}-{told.partition_index}")
    if told.committed_offset < 0:
        return None
    epoch = None if told.committed_leader_epoch == _NO_LEADER_EPOCH else told.committed_leader_epoch
    return OffsetAndMetadata(told.committed_offset, told.metadata or "", epoch)


def _check(code: int, subject: str) -> None:
    if code != ErrorCode.NONE:
        raise BrokerError(code, subject=subject)


def _error(code: int, partition: TopicPartition) -> BrokerError | None:
    return None if code == ErrorCode.NONE else BrokerError(code, subject=str(partition))
