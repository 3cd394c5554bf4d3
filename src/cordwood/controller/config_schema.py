"""Adapts `config` to the configuration schema that the controller's decisions need."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from weakref import WeakKeyDictionary

from cordwood.config.broker import BrokerConfig
from cordwood.config.client_metrics import check_client_metrics
from cordwood.config.definition import Definition
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.errors import ConfigError
from cordwood.config.group import check_group
from cordwood.config.keys import definition_of
from cordwood.config.requests.describe import describe_new_topic
from cordwood.config.topic import check_topic
from cordwood.config.validation.values import Type
from cordwood.metadata.controller.decision import ConfigSchema
from cordwood.metadata.image import Config, ConfigResource, ResourceType
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.create_topics import CreatableTopicConfigs


def config_schema(config: BrokerConfig) -> ConfigSchema:
    schema = _SCHEMAS.get(config)
    if schema is None:
        schema = _SCHEMAS[config] = _schema_of(config)
    return schema


# A configuration never changes, and there is a new one when it does.
_SCHEMAS: WeakKeyDictionary[BrokerConfig, ConfigSchema] = WeakKeyDictionary()
# Topics have few different configurations: checking one and describing it takes half a millisecond each.
_REMEMBERED_TOPICS = 256


def _schema_of(config: BrokerConfig) -> ConfigSchema:
    @lru_cache(_REMEMBERED_TOPICS)
    def check_settings(settings: frozenset[tuple[str, str]]) -> Refusal | None:
        return _problem(lambda: check_topic(config, dict(settings)))

    @lru_cache(_REMEMBERED_TOPICS)
    def describe(settings: frozenset[tuple[str, str]]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_new_topic(config, dict(settings))
        ]

    def check(resource: ConfigResource, settings: Config) -> Refusal | None:
        match resource.type:
            case ResourceType.TOPIC:
                return check_settings(frozenset(settings.items()))
            case ResourceType.GROUP:
                return _problem(lambda: check_group(config, settings))
            case ResourceType.CLIENT_METRICS:
                return _problem(lambda: check_client_metrics(settings))
        return None

    return ConfigSchema(check, _is_list, _default, lambda settings: describe(frozenset(settings.items())))


def _problem(check: Callable[[], None]) -> Refusal | None:
    try:
        check()
    except ConfigError as error:
        return Refusal(error.code, error.message)
    return None


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
