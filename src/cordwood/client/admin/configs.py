"""Reading and changing configurations of topics, brokers, loggers, groups and client metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from cordwood.wire.messages.list_config_resources import ListConfigResourcesRequest


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Resource:
    type: ResourceType
    name: str
    """Of a broker its id; empty for what holds for all brokers."""

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"{kind} default"


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def of(cls, number: int) -> "ConfigSource":
        """UNKNOWN for one that a newer broker made up."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class ConfigType(IntEnum):
    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def of(cls, number: int) -> "ConfigType":
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None also for what is sensitive."""
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    operation: AlterOperation
    value: str | None = None


async def describe_config(
    client: Client, resource: Resource, names: Sequence[str] | None = None, *, documentation: bool = False
) -> list[ConfigEntry]:
    """All entries, or those of `names`, sorted."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if names is None else list(names),
            )
        ],
        include_synonyms=True,
        include_documentation=documentation,
    )
    broker = _home(resource)
    response: DescribeConfigsResponse
    response = await (client.ask_any(request) if broker is None else client.ask_broker(broker, request))
    for told in response.results:
        if told.error_code != ErrorCode.NONE:
            raise BrokerError(told.error_code, told.error_message, str(resource))
    entries = [_entry(config) for told in response.results for config in told.configs]
    return sorted(entries, key=lambda entry: entry.name)


async def alter_config(
    client: Client, resource: Resource, changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> None:
    """All of the changes or none. Raises a `BrokerError` that says why."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                    for change in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    broker = _home(resource)
    response: IncrementalAlterConfigsResponse
    response = await (client.ask_any(request) if broker is None else client.ask_broker(broker, request))
    for told in response.responses:
        if told.error_code != ErrorCode.NONE:
            raise BrokerError(told.error_code, told.error_message, str(resource))


async def list_config_resources(client: Client, types: Sequence[ResourceType] = ()) -> list[Resource]:
    """What has a configuration; without `types`, of every type. Kafka 4.1+ (before, only client metrics)."""
    response = await client.ask_any(ListConfigResourcesRequest(resource_types=[int(kind) for kind in types]))
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code)
    known = ResourceType._value2member_map_
    resources = [
        Resource(ResourceType(told.resource_type), told.resource_name)
        for told in response.config_resources
        if told.resource_type in known
    ]
    return sorted(resources, key=lambda resource: (resource.type, resource.name))


def _home(resource: Resource) -> int | None:
    """The one broker that knows, or None if any does."""
    if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
        return int(resource.name)
    return None


def _entry(told: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        told.name,
        told.value,
        ConfigSource.of(told.config_source),
        ConfigType.of(told.config_type),
        told.read_only,
        told.is_sensitive,
        tuple(ConfigSynonym(synonym.name, synonym.value, ConfigSource.of(synonym.source)) for synonym in told.synonyms),
        told.documentation,
    )
