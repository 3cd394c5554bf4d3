"""CreateTopics: creates topics, with a result per topic; all valid ones are created in one batch.

Partitions and replication factor of -1 take the defaults; with an explicit assignment both must be -1. The response is
sent when the topics are committed; leaders on the controller's own node accept writes by then. A change that isn't
committed within the timeout gets REQUEST_TIMED_OUT, and may still be committed later. Version 5 answers with the
topic's configuration as it is now, version 7 with its id. (Version 4 brought -1 for the defaults, which is taken in all
versions.)
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import topics
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


@handles(CreateTopicsRequest)
async def create_topics(
    controller: Controller, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    return await controller.decide_within(
        request.timeout_ms,
        lambda image: topics.create_topics(
            image, request, controller.random, controller.defaults, controller.config_schema
        ),
    )
