"""IncrementalAlterConfigs: keys of resources are set, removed, or changed as lists; each resource as a whole, or not.

This broker checks first, as in Kafka: it knows what its own configuration may be, and it changes its loggers itself,
which are not stored. The controller decides the rest, and the answer comes when the change is in effect here.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.config_schema import config_schema
from cordwood.broker.loggers import alter_loggers
from cordwood.config.alter import REPEATED, alter_incrementally, repeated
from cordwood.config.changes import Altered, Change, Resource
from cordwood.metadata.controller import configs
from cordwood.metadata.controller.partition_change import is_elr_enabled
from cordwood.metadata.image import ConfigResource, ResourceType
from cordwood.net.api import Call, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    twice = repeated(_resource(asked) for asked in request.resources)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    left: list[AlterConfigsResource] = []
    for asked in request.resources:
        resource = _resource(asked)
        refusal = REPEATED if resource in twice else _settle_here(broker, asked, validate_only=request.validate_only)
        answers[resource] = _answer(asked, refusal)
        if refusal is None and resource.type != ResourceType.BROKER_LOGGER:
            left.append(asked)
    if left:
        wanted = IncrementalAlterConfigsRequest(resources=left, validate_only=request.validate_only)
        decided = await broker.controller.decide(
            lambda image: configs.incremental_alter_configs(image, wanted, config_schema(broker))
        )
        answers |= {Resource(answer.resource_type, answer.resource_name): answer for answer in decided.responses}
    return IncrementalAlterConfigsResponse(responses=[answers[_resource(asked)] for asked in request.resources])


def _resource(asked: AlterConfigsResource) -> Resource:
    return Resource(asked.resource_type, asked.resource_name)


def _answer(asked: AlterConfigsResource, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else str(refusal),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _settle_here(broker: Broker, asked: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    """Changes loggers; of all else, says what is wrong with it."""
    changes = [Change(config.name, config.config_operation, config.value) for config in asked.configs]
    resource = _resource(asked)
    if resource.type == ResourceType.BROKER_LOGGER:
        return alter_loggers(broker.id, resource.name, changes, validate_only=validate_only)
    outcome = alter_incrementally(
        broker.config,
        resource,
        broker.image.config(ConfigResource(resource.type, resource.name)),
        changes,
        elr_enabled=is_elr_enabled(broker.image),
    )
    return None if isinstance(outcome, Altered) else outcome
