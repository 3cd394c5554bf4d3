"""Reading and changing configurations of topics, brokers, loggers, groups and client metrics."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from cordwood.client.admin.broker_enum import BrokerEnum
from cordwood.client.admin.results import failure
from cordwood.client.arguments import ConfigValue, config_text
from cordwood.client.client import Client
from cordwood.client.errors import BadSetting, BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_configs as replacing
from cordwood.wire.messages import incremental_alter_configs as incremental
from cordwood.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from cordwood.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from cordwood.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from cordwood.wire.messages.list_config_resources import ListConfigResourcesRequest
from cordwood.wire.schema import Request

Altered = TypeVar("Altered", AlterConfigsResponse, IncrementalAlterConfigsResponse)


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    type: ConfigResourceType
    name: str
    """A broker's id; empty for the default of all brokers."""

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"{kind} default"


class ConfigSource(BrokerEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(BrokerEnum):
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
    """None also for sensitive values."""
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
    operation: AlterOperation = AlterOperation.SET
    value: ConfigValue | None = None
    """Numbers and bools are converted to text. None for a deletion."""

    def __post_init__(self) -> None:
        # A number meant as the value would be mistaken for an operation.
        if not isinstance(self.operation, AlterOperation):
            raise BadSetting(
                f"{self.name}: {self.operation!r} is not an AlterOperation; to set a value: "
                f"ConfigChange({self.name!r}, value={self.operation!r})"
            )


async def describe_configs(
    client: Client,
    resources: Collection[ConfigResource],
    names: Collection[str] | None = None,
    *,
    documentation: bool = False,
) -> dict[ConfigResource, list[ConfigEntry] | BrokerError]:
    """Returns the entries of each resource, or those in `names`, sorted."""
    keys = None if names is None else list(names)
    described: dict[ConfigResource, list[ConfigEntry] | BrokerError] = {}
    for home, some in _by_home(resources).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
                )
                for resource in some
            ],
            include_synonyms=True,
            include_documentation=documentation,
        )
        response: DescribeConfigsResponse
        response = await (client.ask_any(request) if home is None else client.ask_broker(home, request))
        for told in response.results:
            resource = ConfigResource(ConfigResourceType(told.resource_type), told.resource_name)
            entries = sorted((_entry(config) for config in told.configs), key=lambda entry: entry.name)
            described[resource] = failure(told.error_code, told.error_message, str(resource)) or entries
    return {resource: described[resource] for resource in resources}


async def incremental_alter_configs(
    client: Client, changes: Mapping[ConfigResource, Collection[ConfigChange]], *, validate_only: bool = False
) -> dict[ConfigResource, BrokerError | None]:
    """Makes all changes of a resource or none; returns the result for each resource."""

    def request(resources: Sequence[ConfigResource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        incremental.AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=config_text(change.name, change.value),
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in resources
            ],
            validate_only=validate_only,
        )

    return await _alter(client, changes, request)


async def alter_configs(
    client: Client, configs: Mapping[ConfigResource, Mapping[str, ConfigValue | None]], *, validate_only: bool = False
) -> dict[ConfigResource, BrokerError | None]:
    """Replaces all settings of each resource: settings that are not given return to their defaults."""

    def request(resources: Sequence[ConfigResource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(
            resources=[
                replacing.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        replacing.AlterableConfig(name=name, value=config_text(name, value))
                        for name, value in configs[resource].items()
                    ],
                )
                for resource in resources
            ],
            validate_only=validate_only,
        )

    return await _alter(client, configs, request)


async def list_config_resources(client: Client, types: Collection[ConfigResourceType] = ()) -> list[ConfigResource]:
    """Returns the resources that have a configuration; of every type without `types`. Kafka 4.1+ (before, only client
    metrics)."""
    response = await client.ask_any(ListConfigResourcesRequest(resource_types=[int(kind) for kind in types]))
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code)
    known = ConfigResourceType._value2member_map_
    resources = [
        ConfigResource(ConfigResourceType(told.resource_type), told.resource_name)
        for told in response.config_resources
        if told.resource_type in known
    ]
    return sorted(resources, key=lambda resource: (resource.type, resource.name))


async def _alter(
    client: Client,
    resources: Collection[ConfigResource],
    request: Callable[[Sequence[ConfigResource]], Request[Altered]],
) -> dict[ConfigResource, BrokerError | None]:
    def errors(response: Altered) -> Collection[int]:
        return [told.error_code for told in response.responses]

    outcomes: dict[ConfigResource, BrokerError | None] = {}
    for home, some in _by_home(resources).items():
        asked = request(some)
        response = await (client.ask_controller(asked, errors) if home is None else client.ask_broker(home, asked))
        for told in response.responses:
            resource = ConfigResource(ConfigResourceType(told.resource_type), told.resource_name)
            outcomes[resource] = failure(told.error_code, told.error_message, str(resource))
    return {resource: outcomes[resource] for resource in resources}


def _by_home(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    grouped: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        grouped.setdefault(_home(resource), []).append(resource)
    return grouped


def _home(resource: ConfigResource) -> int | None:
    """Returns the only broker that can answer, or None if any can."""
    if resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name:
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
