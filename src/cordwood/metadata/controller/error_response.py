"""The response to a request that fails as a whole: there is no controller, or the timeout has passed.

As in Kafka, each item of the request gets the error.
"""

from typing import Any, cast

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_configs as legacy
from cordwood.wire.messages import incremental_alter_configs as incremental
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from cordwood.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from cordwood.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest
from cordwood.wire.schema import Request, Response, ResponseT

from .elections import refuse_all

_WHOLE_ELECTION_ERROR_SINCE = 1


def error_response(request: Request[ResponseT], error: ErrorCode, version: int) -> ResponseT:
    return cast(ResponseT, _error_response(request, error, version))


def _error_response(request: Request[Any], error: ErrorCode, version: int) -> Response:
    match request:
        case CreateTopicsRequest():
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name=topic.name, error_code=error, error_message=None)
                    for topic in request.topics
                ]
            )
        case DeleteTopicsRequest():
            by_name = [DeletableTopicResult(name=name, error_code=error) for name in request.topic_names]
            either = [
                DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error)
                for topic in request.topics
            ]
            return DeleteTopicsResponse(responses=[*by_name, *either])
        case CreatePartitionsRequest():
            return CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(name=topic.name, error_code=error) for topic in request.topics]
            )
        case ElectLeadersRequest():
            response = refuse_all(request, error, None)
            if version < _WHOLE_ELECTION_ERROR_SINCE:
                response.error_code = ErrorCode.NONE
            return response
        case legacy.AlterConfigsRequest():
            return legacy.AlterConfigsResponse(
                responses=[
                    legacy.AlterConfigsResourceResponse(
                        error_code=error,
                        error_message=None,
                        resource_type=asked.resource_type,
                        resource_name=asked.resource_name,
                    )
                    for asked in request.resources
                ]
            )
        case incremental.IncrementalAlterConfigsRequest():
            return incremental.IncrementalAlterConfigsResponse(
                responses=[
                    incremental.AlterConfigsResourceResponse(
                        error_code=error,
                        error_message=None,
                        resource_type=asked.resource_type,
                        resource_name=asked.resource_name,
                    )
                    for asked in request.resources
                ]
            )
        case _:
            # The others have one error for the whole.
            response_type: Any = type(request).response
            whole: Response = response_type(error_code=error)
            return whole
