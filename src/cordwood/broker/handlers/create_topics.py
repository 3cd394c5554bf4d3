"""CreateTopics: each topic is created, or refused, by itself; those that are created are created together.

Partitions and replication factor of -1 take the defaults; with an assignment of one's own both have to be -1. The
answer comes when the leaders take writes, since the controller publishes what it commits before it answers; what is
not committed within the timeout is answered with REQUEST_TIMED_OUT, and may still come to be.
Version 5 answers with the topic's configuration as it is now, version 7 with its id. (Version 4 brought -1 for the
defaults, which is taken in all versions.)
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.config_schema import config_schema
from cordwood.broker.deadline import decide_within
from cordwood.metadata.controller import topics
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


@handles(CreateTopicsRequest)
async def create_topics(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    response = await decide_within(
        request.timeout_ms,
        broker.controller,
        lambda image: topics.create_topics(image, request, broker.random, broker.defaults, config_schema(broker)),
    )
    return response or _timed_out(request)


def _timed_out(request: CreateTopicsRequest) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None)
            for topic in request.topics
        ]
    )
