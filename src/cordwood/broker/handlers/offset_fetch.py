"""OffsetFetch: committed offsets of groups.

A null list of topics means all of them, from version 2 on. Version 7 lets a client wait for transactions that commit
offsets: such a partition is UNSTABLE_OFFSET_COMMIT. Version 8 allows several groups; version 9 adds the requesting
member (KIP-848); version 10 has topic ids instead of names.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import answer_all, consult
from cordwood.coordinator.groups.offset_fetch import fetch_offsets
from cordwood.net.api import Call, Result, handles
from cordwood.shard.promise import Promise
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from cordwood.wire.primitives import ZERO_UUID

_GROUP_ERRORS_SINCE = 2
_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10


@handles(OffsetFetchRequest)
def offset_fetch(broker: Broker, request: OffsetFetchRequest, call: Call) -> Result:
    if call.version >= _BATCHED_SINCE:
        results = [_fetch(broker, group, request.require_stable, call.version) for group in request.groups]
        return answer_all(call, results, lambda groups: OffsetFetchResponse(groups=groups))
    group = _only_group(request)
    result = _fetch(broker, group, request.require_stable, call.version)
    return answer_all(call, [result], lambda groups: _response_of_one(groups[0], group, call.version))


def _fetch(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]:
    unknown = _resolve_topics(broker, group, version)
    result = consult(
        broker.groups,
        group.group_id,
        lambda state: fetch_offsets(state, group, require_stable=require_stable),
        lambda error, _message: OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error),
    )
    if version < _TOPIC_IDS_SINCE:
        return result
    if not isinstance(result, Promise):
        return _by_id(result, unknown)
    by_id: Promise[OffsetFetchResponseGroup] = Promise()
    result.then(lambda _outcome: by_id.resolve(_by_id(result.result(), unknown)))
    return by_id


# Offsets are stored by topic name, while clients use ids from version 10 on.


def _resolve_topics(broker: Broker, group: OffsetFetchRequestGroup, version: int) -> list[OffsetFetchRequestTopics]:
    """Adds each topic's name or id; removes topics with an unknown id."""
    if group.topics is None:
        return []
    topics = broker.image.topics
    if version < _TOPIC_IDS_SINCE:
        for asked in group.topics:
            asked.topic_id = topics.ids.get(asked.name, ZERO_UUID)
        return []
    known, unknown = [], []
    for asked in group.topics:
        topic = topics.by_id.get(asked.topic_id)
        if topic is None:
            unknown.append(asked)
        else:
            asked.name = topic.name
            known.append(asked)
    group.topics = known
    return unknown


def _by_id(group: OffsetFetchResponseGroup, unknown: list[OffsetFetchRequestTopics]) -> OffsetFetchResponseGroup:
    """Converts to ids, without deleted topics, and with errors for unknown ones."""
    if group.error_code:
        return group
    group.topics = [topic for topic in group.topics if topic.topic_id != ZERO_UUID]
    for asked in unknown:
        partitions = [
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for index in asked.partition_indexes
        ]
        group.topics.append(OffsetFetchResponseTopics(topic_id=asked.topic_id, partitions=partitions))
    return group


# A single group, in old versions


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )


def _response_of_one(
    group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, version: int
) -> OffsetFetchResponse:
    if group.error_code and version < _GROUP_ERRORS_SINCE:
        return OffsetFetchResponse(topics=_all_refused(asked, group.error_code))
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _all_refused(asked: OffsetFetchRequestGroup, error_code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in asked.topics or ()
    ]
