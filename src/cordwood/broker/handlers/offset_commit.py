"""OffsetCommit: a group commits offsets at its coordinator.

A missing partition has an error, and the others are committed. If the coordinator refuses, it refuses all. Up to
version 4 a client may set a retention time; version 6 adds leader epochs, version 7 static members, version 9 member
epochs (KIP-848), version 10 topic ids instead of names.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.offset_commit import Commit, commit_offsets
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_IDS_SINCE = 10


@handles(OffsetCommitRequest)
def offset_commit(broker: Broker, request: OffsetCommitRequest, call: Call) -> Result:
    version = call.version
    topics = broker.image.topics
    response = OffsetCommitResponse(topics=[])
    commits = []
    for asked in request.topics:
        if version >= _TOPIC_IDS_SINCE:
            topic, missing = topics.by_id.get(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, missing = topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answers = []
        for partition in asked.partitions:
            answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if topic is None:
                answer.error_code = missing
            elif partition.partition_index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                commits.append(Commit(topic.name, topic.id, partition, answer))
        if answers:
            response.topics.append(
                OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)
            )
    if not commits:
        return response
    return ask(
        call,
        broker.groups,
        request.group_id,
        lambda state: commit_offsets(state, request, commits, response, version),
        lambda error, _message: _refused(response, error),
    )


def _refused(response: OffsetCommitResponse, error: ErrorCode) -> OffsetCommitResponse:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = error
    return response
