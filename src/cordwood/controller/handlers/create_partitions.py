"""CreatePartitions: topics grow to a number of partitions, each topic by itself.

The new partitions have as many replicas as the first one; they are placed where there is room, or where the request
says. The answer comes when they take writes; what is not committed within the timeout is answered with
REQUEST_TIMED_OUT, and may still come to be.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import topics
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


@handles(CreatePartitionsRequest)
async def create_partitions(
    controller: Controller, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    return await controller.decide_within(
        request.timeout_ms, lambda image: topics.create_partitions(image, request, controller.random)
    )
