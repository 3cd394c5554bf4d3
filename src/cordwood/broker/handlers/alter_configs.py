"""AlterConfigs: the whole configuration of resources is replaced, so that a key that is not named goes.

Deprecated since a client can hardly know the whole; IncrementalAlterConfigs took its place. It does not know loggers.
As there, this broker checks first, the controller decides, and the answer comes when the change is in effect here.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.config_schema import config_schema
from cordwood.config.alter import REPEATED, repeated, replace_settings
from cordwood.config.changes import Altered, Resource
from cordwood.metadata.controller import configs
from cordwood.metadata.controller.partition_change import is_elr_enabled
from cordwood.metadata.image import ConfigResource
from cordwood.net.api import Call, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(AlterConfigsRequest)
async def alter_configs(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    twice = repeated(_resource(asked) for asked in request.resources)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    left: list[AlterConfigsResource] = []
    for asked in request.resources:
        refusal = REPEATED if _resource(asked) in twice else _refusal(broker, asked)
        if refusal is None:
            left.append(asked)
        else:
            answers[_resource(asked)] = _refused(asked, refusal)
    if left:
        wanted = AlterConfigsRequest(resources=left, validate_only=request.validate_only)
        decided = await broker.controller.decide(
            lambda image: configs.alter_configs(image, wanted, config_schema(broker))
        )
        answers |= {Resource(answer.resource_type, answer.resource_name): answer for answer in decided.responses}
    return AlterConfigsResponse(responses=[answers[_resource(asked)] for asked in request.resources])


def _resource(asked: AlterConfigsResource) -> Resource:
    return Resource(asked.resource_type, asked.resource_name)


def _refused(asked: AlterConfigsResource, refusal: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=refusal.error,
        error_message=str(refusal),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _refusal(broker: Broker, asked: AlterConfigsResource) -> Refusal | None:
    outcome = replace_settings(
        broker.config,
        _resource(asked),
        broker.image.config(ConfigResource(asked.resource_type, asked.resource_name)),
        [(config.name, config.value) for config in asked.configs],
        elr_enabled=is_elr_enabled(broker.image),
    )
    return None if isinstance(outcome, Altered) else outcome
