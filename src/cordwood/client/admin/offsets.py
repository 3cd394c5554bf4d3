"""Committed offsets of groups: reading, setting and deleting them from outside the group."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from cordwood.client.admin.coordinators import CoordinatorKind, ask_coordinator, ask_coordinators
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from cordwood.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

# The last versions of OffsetCommit and OffsetFetch that use topic names: a deleted topic has no id, but its offsets
# remain.
_LAST_WITH_NAMES = 9
# The first versions of OffsetFetch that return all of a group's offsets, and several groups (Kafka 3.0).
_ALL_TOPICS = 2
_BATCHED = 8


GroupOffsets = dict[TopicPartition, OffsetAndMetadata]
Results = dict[TopicPartition, BrokerError | None]
"""The outcome for each partition; None is success."""


async def list_group_offsets(
    client: Client, group_ids: Collection[str], *, require_stable: bool = False
) -> dict[str, GroupOffsets | BrokerError]:
    """Returns all committed offsets of each group, sorted; nothing for a missing group.

    With `require_stable` it waits for transactions that are committing offsets.
    """

    async def ask(
        broker_id: int, broker: BrokerConnection, asked: Mapping[str, None]
    ) -> Mapping[str, GroupOffsets | BrokerError]:
        if broker.versions.best(OffsetFetchRequest, at_most=_LAST_WITH_NAMES) < _BATCHED:
            return {group_id: await _ask_for_one(broker, group_id, require_stable) for group_id in asked}
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in asked]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
        response = await broker.ask(request, at_least=_BATCHED, at_most=_LAST_WITH_NAMES)
        return {
            told.group_id: _offsets(
                told.group_id, told.error_code, ((topic.name, topic.partitions) for topic in told.topics)
            )
            for told in response.groups
        }

    return await ask_coordinators(client, CoordinatorKind.GROUP, dict.fromkeys(group_ids), ask)


async def alter_group_offsets(
    client: Client, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Results:
    """Commits offsets for a group without members, which need not exist yet. UNKNOWN_MEMBER_ID means that it has
    members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for partition, committed in offsets.items():
        topic = topics.setdefault(partition.topic, OffsetCommitRequestTopic(name=partition.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))

    async def ask(broker: BrokerConnection) -> Results:
        response = await broker.ask(request, at_most=_LAST_WITH_NAMES)
        results = _results(
            (TopicPartition(topic.name, told.partition_index), told.error_code)
            for topic in response.topics
            for told in topic.partitions
        )
        return {partition: _of_active_group(group_id, error) for partition, error in results.items()}

    return await ask_coordinator(client, CoordinatorKind.GROUP, group_id, ask)


async def delete_group_offsets(client: Client, group_id: str, partitions: Collection[TopicPartition]) -> Results:
    """GROUP_SUBSCRIBED_TO_TOPIC for a topic that members read. Raises errors of the group itself."""
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, OffsetDeleteRequestTopic(name=partition.topic))
        topic.partitions.append(OffsetDeleteRequestPartition(partition_index=partition.partition))
    request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

    async def ask(broker: BrokerConnection) -> Results:
        response = await broker.ask(request)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code, subject=f"group {group_id}")
        return _results(
            (TopicPartition(topic.name, told.partition_index), told.error_code)
            for topic in response.topics
            for told in topic.partitions
        )

    return await ask_coordinator(client, CoordinatorKind.GROUP, group_id, ask)


async def _ask_for_one(broker: BrokerConnection, group_id: str, require_stable: bool) -> GroupOffsets | BrokerError:
    request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=require_stable)
    response = await broker.ask(request, at_least=_ALL_TOPICS, at_most=_BATCHED - 1)
    topics = ((topic.name, topic.partitions) for topic in response.topics)
    return _offsets(group_id, response.error_code, topics)


def _offsets(
    group_id: str,
    error_code: int,
    topics: Iterable[tuple[str, Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]],
) -> GroupOffsets | BrokerError:
    if error_code != ErrorCode.NONE:
        return BrokerError(error_code, subject=f"group {group_id}")
    offsets = {}
    for topic, partitions in topics:
        for told in partitions:
            partition = TopicPartition(topic, told.partition_index)
            if told.error_code != ErrorCode.NONE:
                return BrokerError(told.error_code, subject=f"group {group_id}, {partition}")
            if told.committed_offset >= 0:
                offsets[partition] = OffsetAndMetadata(
                    told.committed_offset,
                    told.metadata or "",
                    told.committed_leader_epoch if told.committed_leader_epoch >= 0 else None,
                )
    return dict(sorted(offsets.items()))


def _results(told: Iterable[tuple[TopicPartition, int]]) -> Results:
    """Raises errors that require another coordinator look-up."""
    results: Results = {}
    for partition, code in told:
        error = None if code == ErrorCode.NONE else BrokerError(code, subject=str(partition))
        if error is not None and error.code in _ABOUT_THE_COORDINATOR:
            raise error
        results[partition] = error
    return results


def _of_active_group(group_id: str, error: BrokerError | None) -> BrokerError | None:
    """Replaces UNKNOWN_MEMBER_ID, the error for commits to a group with members, with a clearer error."""
    if error is None or error.code != ErrorCode.UNKNOWN_MEMBER_ID:
        return error
    refused = BrokerError(
        error.code, f"group {group_id} has active members; only they may commit offsets", error.subject
    )
    refused.advise("stop its members first")
    return refused


_ABOUT_THE_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
