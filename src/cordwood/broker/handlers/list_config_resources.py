"""ListConfigResources: the resources that have a configuration.

Every topic, broker and broker's loggers are listed, whether anything was set for them or not; groups and client metrics
subscriptions only if something was set. Without types, all are listed. Version 0 has client metrics subscriptions only;
it was a separate API then (KIP-714, KIP-1142).
"""

from __future__ import annotations

from collections.abc import Iterable

from cordwood.broker.broker import Broker
from cordwood.metadata.image import MetadataImage, ResourceType
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TYPES_SINCE = 1
_ALL = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


@handles(ListConfigResourcesRequest)
def list_config_resources(
    broker: Broker, request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    asked: Iterable[int] = dict.fromkeys(request.resource_types) or _ALL
    if call.version < _TYPES_SINCE:
        asked = (ResourceType.CLIENT_METRICS,)
    if any(kind not in _ALL for kind in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in asked
            for name in _names(broker.image, kind)
        ]
    )


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return image.topics.ids
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, image.brokers)
        case _:
            return [resource.name for resource in image.configs if resource.type == kind]
