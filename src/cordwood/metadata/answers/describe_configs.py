"""DescribeConfigs: the configuration of resources, each key with the source of its value.

A null list of keys means all, and so does an empty one, as in Kafka; unknown keys are omitted. A broker describes only
itself and its loggers: a client asks each broker for its own. An unknown resource type fails the whole request. Version
3 adds types and, on request, documentation: the allowed values and the effect of the key.
"""

from __future__ import annotations

from collections.abc import Iterable

from cordwood.config.broker import BrokerConfig
from cordwood.config.errors import ConfigError
from cordwood.config.requests.describe import (
    Entry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
)
from cordwood.config.requests.documentation import documentation_of
from cordwood.metadata.controller.topics import check_topic_name
from cordwood.metadata.image import ConfigResource, MetadataImage, ResourceType
from cordwood.net.api import RequestContext, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from .loggers import logger_levels
from .role import Role


@handles(DescribeConfigsRequest)
def describe_configs(role: Role, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    unknown = next((asked for asked in request.resources if asked.resource_type not in _KNOWN), None)
    if unknown is not None:
        message = f"Unexpected resource type UNKNOWN for resource {unknown.resource_name}"
        refusal = ConfigError(message, ErrorCode.INVALID_REQUEST)
        return DescribeConfigsResponse(results=[_refused(asked, refusal) for asked in request.resources])
    return DescribeConfigsResponse(
        results=[_described(role.config, role.image, request, asked) for asked in request.resources]
    )


_KNOWN = frozenset(ResourceType) - {ResourceType.UNKNOWN}


def _described(
    config: BrokerConfig, image: MetadataImage, request: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    resource = ConfigResource(asked.resource_type, asked.resource_name)
    try:
        entries = _entries(config, image, resource)
    except ConfigError as error:
        return _refused(asked, error)
    except Refusal as refusal:
        return _refused(asked, ConfigError(str(refusal), refusal.error))
    keys = asked.configuration_keys
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[_result(resource.type, entry, request) for entry in entries if not keys or entry.name in keys],
    )


def _refused(asked: DescribeConfigsResource, error: ConfigError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[],
    )


def _entries(config: BrokerConfig, image: MetadataImage, resource: ConfigResource) -> Iterable[Entry]:
    match resource.type:
        case ResourceType.TOPIC:
            check_topic_name(resource.name)
            if resource.name not in image.topics:
                raise ConfigError("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic(config, image.config(resource))
        case ResourceType.BROKER:
            if not resource.name:
                return describe_broker_default(config)
            _check_node_id(config.node_id, resource.name, f"{config.node_id} or empty string,")
            return describe_broker(config)
        case ResourceType.BROKER_LOGGER:
            if not resource.name:
                raise ConfigError("Broker id must not be empty", ErrorCode.INVALID_REQUEST)
            _check_node_id(config.node_id, resource.name, f"{config.node_id}")
            return describe_loggers(logger_levels())
        case ResourceType.GROUP:
            if not resource.name:
                raise ConfigError("Group name must not be empty", ErrorCode.INVALID_REQUEST)
            return describe_group(config, image.config(resource))
        case _:
            if not resource.name:
                raise ConfigError("Client metrics subscription name must not be empty", ErrorCode.INVALID_REQUEST)
            return describe_client_metrics(image.config(resource))


def _check_node_id(node_id: int, name: str, expected: str) -> None:
    try:
        broker_id = int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise ConfigError(message, ErrorCode.INVALID_REQUEST) from None
    if broker_id != node_id:
        raise ConfigError(f"Unexpected broker id, expected {expected} but received {name}", ErrorCode.INVALID_REQUEST)


def _result(resource_type: int, entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        config_type=entry.type,
        documentation=documentation_of(resource_type, entry.name) if request.include_documentation else None,
    )
    if resource_type == ResourceType.BROKER_LOGGER:
        result.documentation = ""
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    return result
