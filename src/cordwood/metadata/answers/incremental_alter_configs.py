"""IncrementalAlterConfigs: sets and removes keys of resources, or changes list values; all or none per resource.

The receiving node validates first, as in Kafka: it knows the limits of its own configuration, and it changes its
loggers itself, which are not stored. The controller decides the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cordwood.config.broker import BrokerConfig
from cordwood.config.network.listener_tls import check_listener_tls
from cordwood.config.requests.alter import REPEATED, alter_incrementally, is_of_another_broker, repeated
from cordwood.config.requests.changes import Change, Resource
from cordwood.metadata.controller.partition_change import is_elr_enabled
from cordwood.metadata.image import ConfigResource, MetadataImage, ResourceType
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from .loggers import alter_loggers


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
    config: BrokerConfig,
    image: MetadataImage,
    decide: Callable[[IncrementalAlterConfigsRequest], Awaitable[IncrementalAlterConfigsResponse]],
    *,
    takes_others: bool = False,
) -> IncrementalAlterConfigsResponse:
    """`decide` asks the controller about the resources that pass the checks and are stored. `takes_others`: the
    configuration of another broker is not checked here, which is so on a controller."""
    twice = repeated(_resource(asked) for asked in request.resources)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    left: list[AlterConfigsResource] = []
    for asked in request.resources:
        resource = _resource(asked)
        refusal: Refusal | None = None
        if resource in twice:
            refusal = REPEATED
        elif not (takes_others and is_of_another_broker(config, resource)):
            refusal = _settle_here(config, image, asked, validate_only=request.validate_only)
        answers[resource] = _answer(asked, refusal)
        if refusal is None and resource.type != ResourceType.BROKER_LOGGER:
            left.append(asked)
    if left:
        wanted = IncrementalAlterConfigsRequest(resources=left, validate_only=request.validate_only)
        decided = await decide(wanted)
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


def _settle_here(
    config: BrokerConfig, image: MetadataImage, asked: AlterConfigsResource, *, validate_only: bool
) -> Refusal | None:
    """Changes loggers, and returns the errors of all other resources."""
    changes = [Change(key.name, key.config_operation, key.value) for key in asked.configs]
    resource = _resource(asked)
    if resource.type == ResourceType.BROKER_LOGGER:
        return alter_loggers(config.node_id, resource.name, changes, validate_only=validate_only)
    outcome = alter_incrementally(
        config,
        resource,
        image.config(ConfigResource(resource.type, resource.name)),
        changes,
        elr_enabled=is_elr_enabled(image),
    )
    return outcome if isinstance(outcome, Refusal) else check_listener_tls(config, resource, outcome)
