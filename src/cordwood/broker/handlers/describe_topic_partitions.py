"""DescribeTopicPartitions: topics and their partitions, page by page, in the order of the topics' names.

Without names it describes all topics; missing named topics have an error. At most `response_partition_limit` partitions
are returned, and never more than `max.request.partition.size.limit`; `next_cursor` is then the place to continue, to be
sent with the next request. A cursor must be in a requested topic.
"""

from __future__ import annotations

from collections.abc import Iterator

from cordwood.broker.broker import Broker
from cordwood.broker.topic_view import ALL_ON_TOPIC, INTERNAL_TOPICS, offline_replicas
from cordwood.metadata.controller.topics import check_topic_name
from cordwood.metadata.image import NO_LEADER, MetadataImage, Topic
from cordwood.net.api import Call, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
)


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    is_all = not request.topics
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if not _is_valid(cursor, asked):
        return _refuse_all(request)
    # Kafka compares UTF-16; topic names are ASCII, so the result is the same.
    names = sorted(name for name in (broker.image.topics.ids if is_all else asked) if not _is_before(name, cursor))
    limit = max(1, min(request.response_partition_limit, broker.config.integer("max.request.partition.size.limit")))
    reachable = frozenset(broker.endpoints(call.connection.listener))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if limit == 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = broker.image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), start + limit)
        response.topics.append(_described(broker.image, topic, start, end, reachable))
        if end < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
        limit -= max(0, end - start)
    return response


def _is_valid(cursor: RequestCursor | None, asked: set[str]) -> bool:
    if cursor is None:
        return True
    return cursor.partition_index >= 0 and (not asked or cursor.topic_name in asked)


def _is_before(name: str, cursor: RequestCursor | None) -> bool:
    return cursor is not None and name < cursor.topic_name


def _refuse_all(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name, partitions=[])
            for topic in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except Refusal as refusal:
        error = refusal.error
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=ALL_ON_TOPIC,
    )


def _described(
    image: MetadataImage, topic: Topic, start: int, end: int, reachable: frozenset[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=list(_partitions(image, topic, start, end, reachable)),
        topic_authorized_operations=ALL_ON_TOPIC,
    )


def _partitions(
    image: MetadataImage, topic: Topic, start: int, end: int, reachable: frozenset[int]
) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    for index in range(start, end):
        state = topic.partitions[index]
        yield DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE,
            partition_index=index,
            leader_id=state.leader if state.leader in reachable else NO_LEADER,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            eligible_leader_replicas=list(state.elr),
            last_known_elr=list(state.last_known_elr),
            offline_replicas=offline_replicas(image, state, reachable),
        )
