"""OffsetDelete: deletes committed offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.deletion import delete_offsets
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(OffsetDeleteRequest)
def offset_delete(broker: Broker, request: OffsetDeleteRequest, call: Call) -> Result:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    response = OffsetDeleteResponse(topics=[])
    existing = []
    for asked in request.topics:
        topic = broker.image.topics.get(asked.name)
        answers = []
        for partition in asked.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if topic is None or partition.partition_index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                existing.append((asked.name, answer))
        if answers:
            response.topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=answers))
    return ask(
        call,
        broker.groups,
        request.group_id,
        lambda state: delete_offsets(state, request.group_id, existing, response),
        lambda error, _message: OffsetDeleteResponse(error_code=error),
    )
