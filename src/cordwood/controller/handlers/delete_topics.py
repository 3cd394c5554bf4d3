"""DeleteTopics: deletes topics with their configuration and data, with a result per topic.

`delete.topic.enable` may forbid it. A change that isn't committed within the timeout gets REQUEST_TIMED_OUT, and may
still be committed later. Up to version 5 topics have names; from version 6 on each has a name or an id. Version 3 has a
separate error for forbidden deletions, version 5 messages.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import topics
from cordwood.net.api import RequestContext, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

_DISABLED_SINCE = 3


@handles(DeleteTopicsRequest)
async def delete_topics(
    controller: Controller, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not controller.config.flag("delete.topic.enable"):
        is_known = context.version >= _DISABLED_SINCE
        error = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise Refusal(error, "delete.topic.enable is false")
    return await controller.decide_within(request.timeout_ms, lambda image: topics.delete_topics(image, request))
