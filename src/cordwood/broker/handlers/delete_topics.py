"""DeleteTopics: each topic goes, or is refused, by itself; with it go its configuration and its data.

`delete.topic.enable` may forbid it. What is not committed within the timeout is answered with REQUEST_TIMED_OUT, and
may still come to be.
Up to version 5 topics have names; from version 6 on each has a name or an id. Version 3 has an error of its own for
what is forbidden, version 5 messages.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.deadline import decide_within
from cordwood.metadata.controller import topics
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

_DISABLED_SINCE = 3


@handles(DeleteTopicsRequest)
async def delete_topics(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    if not broker.config.flag("delete.topic.enable"):
        is_known = call.version >= _DISABLED_SINCE
        return _refuse_all(request, ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST)
    response = await decide_within(
        request.timeout_ms, broker.controller, lambda image: topics.delete_topics(image, request)
    )
    return response or _refuse_all(request, ErrorCode.REQUEST_TIMED_OUT)


def _refuse_all(request: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    by_name = [DeletableTopicResult(name=name, error_code=error) for name in request.topic_names]
    either = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error) for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=[*by_name, *either])
