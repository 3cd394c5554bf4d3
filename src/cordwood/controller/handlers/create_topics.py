"""CreateTopics: each topic is created, or refused, by itself; those that are created are created together.

Partitions and replication factor of -1 take the defaults; with an assignment of one's own both have to be -1. The
answer comes when it is committed; on the controller's own node the leaders take writes by then. What is not committed
within the timeout is answered with REQUEST_TIMED_OUT, and may still come to be.
Version 5 answers with the topic's configuration as it is now, version 7 with its id. (Version 4 brought -1 for the
defaults, which is taken in all versions.)
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
