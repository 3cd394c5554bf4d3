"""CreatePartitions: increases the number of partitions, with a result per topic.

The new partitions have as many replicas as the first one; they are placed by the controller, or as the request says.
The response is sent when they accept writes; a change that isn't committed within the timeout gets REQUEST_TIMED_OUT,
and may still be committed later.
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
