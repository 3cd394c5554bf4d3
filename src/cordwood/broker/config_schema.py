"""What the controller's decisions have to know of configuration keys, from `config`, which knows it."""

from __future__ import annotations

from cordwood.config.client_metrics import check_client_metrics
from cordwood.config.definition import Definition
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.describe import describe_new_topic
from cordwood.config.errors import ConfigError
from cordwood.config.group import check_group
from cordwood.config.keys import definition_of
from cordwood.config.topic import check_topic
from cordwood.config.values import Type
from cordwood.metadata.controller.decision import ApiError, ConfigSchema
from cordwood.metadata.image import Config, ConfigResource, ResourceType
from cordwood.wire.messages.create_topics import CreatableTopicConfigs

from .broker import Broker


def config_schema(broker: Broker) -> ConfigSchema:
    config = broker.config

    def check(resource: ConfigResource, settings: Config) -> ApiError | None:
        try:
            match resource.type:
                case ResourceType.TOPIC:
                    check_topic(config, settings)
                case ResourceType.GROUP:
                    check_group(config, settings)
                case ResourceType.CLIENT_METRICS:
                    check_client_metrics(settings)
        except ConfigError as error:
            return ApiError(error.code, error.message)
        return None

    def describe(settings: Config) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_new_topic(config, settings)
        ]

    return ConfigSchema(check, _is_list, _default, describe)


def _is_list(resource_type: int, name: str) -> bool:
    definition = _definition(resource_type, name)
    return definition is not None and definition.type is Type.LIST


def _default(resource_type: int, name: str) -> str | None:
    definition = _definition(resource_type, name)
    return None if definition is None else definition.default_spelling


def _definition(resource_type: int, name: str) -> Definition | None:
    match resource_type:
        case ResourceType.TOPIC:
            return TOPIC.get(name)
        case ResourceType.GROUP:
            return GROUP.get(name)
        case _:
            return definition_of(name)
