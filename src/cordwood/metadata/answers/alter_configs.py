"""AlterConfigs: replaces the whole configuration of resources: keys that are not named are removed.

Deprecated in favour of IncrementalAlterConfigs, since a client can hardly know the whole configuration. Loggers are not
supported. As there, the receiving node validates first, and the controller decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cordwood.config.broker import BrokerConfig
from cordwood.config.network.listener_tls import check_listener_tls
from cordwood.config.requests.alter import REPEATED, is_of_another_broker, repeated, replace_settings
from cordwood.config.requests.changes import Resource
from cordwood.metadata.controller.partition_change import is_elr_enabled
from cordwood.metadata.image import ConfigResource, MetadataImage
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def alter_configs(
    request: AlterConfigsRequest,
    config: BrokerConfig,
    image: MetadataImage,
    decide: Callable[[AlterConfigsRequest], Awaitable[AlterConfigsResponse]],
    *,
    takes_others: bool = False,
) -> AlterConfigsResponse:
    """`decide` asks the controller about the resources that pass the checks. `takes_others`: the configuration of
    another broker is not checked here, which is so on a controller."""
    twice = repeated(_resource(asked) for asked in request.resources)
    answers: dict[Resource, AlterConfigsResourceResponse] = {}
    left: list[AlterConfigsResource] = []
    for asked in request.resources:
        refusal: Refusal | None = None
        if _resource(asked) in twice:
            refusal = REPEATED
        elif not (takes_others and is_of_another_broker(config, _resource(asked))):
            refusal = _refusal(config, image, asked)
        if refusal is None:
            left.append(asked)
        else:
            answers[_resource(asked)] = _refused(asked, refusal)
    if left:
        wanted = AlterConfigsRequest(resources=left, validate_only=request.validate_only)
        decided = await decide(wanted)
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


def _refusal(config: BrokerConfig, image: MetadataImage, asked: AlterConfigsResource) -> Refusal | None:
    outcome = replace_settings(
        config,
        _resource(asked),
        image.config(ConfigResource(asked.resource_type, asked.resource_name)),
        [(setting.name, setting.value) for setting in asked.configs],
        elr_enabled=is_elr_enabled(image),
    )
    return outcome if isinstance(outcome, Refusal) else check_listener_tls(config, _resource(asked), outcome)
