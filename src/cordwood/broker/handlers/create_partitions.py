"""CreatePartitions: topics grow to a number of partitions, each topic by itself.

The new partitions have as many replicas as the first one; they are placed where there is room, or where the request
says. The answer comes when they take writes; what is not committed within the timeout is answered with
REQUEST_TIMED_OUT, and may still come to be.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.deadline import decide_within
from cordwood.metadata.controller import topics
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


@handles(CreatePartitionsRequest)
async def create_partitions(broker: Broker, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    response = await decide_within(
        request.timeout_ms,
        broker.controller,
        lambda image: topics.create_partitions(image, request, broker.random),
    )
    return response or _timed_out(request)


def _timed_out(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.REQUEST_TIMED_OUT)
            for topic in request.topics
        ]
    )
