"""DescribeConfigs: every key of a resource with its value, source and synonyms, as Kafka reports them.

Entries are sorted by name; Kafka's have no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.config.definition import ConfigSource, Definition
from cordwood.config.definitions.broker import BROKER
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.group import group_values
from cordwood.config.keys import definition_of, is_read_only, synonyms_of
from cordwood.config.topic import topic_values
from cordwood.config.validation.values import UNKNOWN_TYPE, spell


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    name: str
    # None if there is no value, or if it is a secret.
    value: str | None
    source: ConfigSource
    # A `values.Type`, or 0 for an unknown key.
    type: int
    read_only: bool
    sensitive: bool
    # The key's value at each level, the effective one first.
    synonyms: tuple[SynonymEntry, ...]


def describe_broker(config: BrokerConfig) -> list[Entry]:
    """Describes all keys of a broker; internal and unknown ones only if they are set."""
    spelled = {name: spell(config[name]) for name, definition in BROKER.items() if not definition.internal}
    values = {**config.settings, **spelled}
    return [_broker_entry(name, values[name], _levels_of(config, name)) for name in sorted(values)]


def describe_broker_default(config: BrokerConfig) -> list[Entry]:
    """Describes the cluster-wide defaults of all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_entry(name, text, tuple(level for level in _levels_of(config, name) if level.source is source))
        for name, text in sorted(config.dynamic_default.items())
    ]


def describe_topic(broker: BrokerConfig, settings: Settings) -> list[Entry]:
    entries = []
    for name, value in topic_values(broker, settings).items():
        definition = TOPIC[name]
        if definition.internal and name not in settings:
            continue
        text = spell(value)
        fallbacks = _fallbacks_of(broker, definition)
        own = (SynonymEntry(name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG),) if name in settings else ()
        entries.append(_entry(definition, text, (*own, *fallbacks)))
    return sorted(entries, key=lambda entry: entry.name)


def describe_new_topic(broker: BrokerConfig, settings: Settings) -> list[Entry]:
    """Like CreateTopics, looks for a value's source under all synonyms of its default, not only the first one, and
    reports no synonyms."""
    return [
        entry._replace(source=_level_that_says(broker, TOPIC[entry.name]) or entry.source, synonyms=())
        if entry.name not in settings
        else entry._replace(synonyms=())
        for entry in describe_topic(broker, settings)
    ]


def _level_that_says(broker: BrokerConfig, definition: Definition) -> ConfigSource | None:
    names = [synonym.name for synonym in definition.broker_synonyms]
    return next((source for settings, source in broker.layers if any(name in settings for name in names)), None)


def describe_group(broker: BrokerConfig, settings: Settings) -> list[Entry]:
    entries = []
    for name, value in group_values(broker, settings).items():
        definition = GROUP[name]
        text = spell(value)
        fallbacks = (
            _fallbacks_of(broker, definition)
            if definition.broker_synonyms
            else (SynonymEntry(name, definition.default_spelling, ConfigSource.DEFAULT_CONFIG),)
        )
        own = (SynonymEntry(name, text, ConfigSource.DYNAMIC_GROUP_CONFIG),) if name in settings else ()
        entries.append(_entry(definition, text, (*own, *fallbacks)))
    return sorted(entries, key=lambda entry: entry.name)


def describe_client_metrics(settings: Settings) -> list[Entry]:
    entries = []
    for name, definition in sorted(CLIENT_METRICS.items()):
        text = spell(definition.read(settings[name]) if name in settings else definition.default)
        own = (SynonymEntry(name, text, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),) if name in settings else ()
        entries.append(_entry(definition, text, own))
    return entries


def describe_loggers(levels: Mapping[str, str]) -> list[Entry]:
    return [
        Entry(name, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, UNKNOWN_TYPE, False, False, ())
        for name, level in sorted(levels.items())
    ]


def _entry(definition: Definition, text: str | None, levels: tuple[SynonymEntry, ...]) -> Entry:
    return Entry(definition.name, text, _source_of(levels), definition.type, False, False, levels)


def _broker_entry(name: str, text: str | None, levels: tuple[SynonymEntry, ...]) -> Entry:
    definition = definition_of(name)
    return Entry(
        name=name,
        value=None if _is_sensitive(definition) else text,
        source=_source_of(levels),
        type=UNKNOWN_TYPE if definition is None else definition.type,
        read_only=is_read_only(name),
        sensitive=_is_sensitive(definition),
        synonyms=levels,
    )


def _source_of(levels: tuple[SynonymEntry, ...]) -> ConfigSource:
    return levels[0].source if levels else ConfigSource.DEFAULT_CONFIG


def _is_sensitive(definition: Definition | None) -> bool:
    # An unknown key may hold a secret.
    return definition is None or definition.sensitive


def _fallbacks_of(broker: BrokerConfig, definition: Definition) -> tuple[SynonymEntry, ...]:
    synonyms = definition.broker_synonyms
    return _levels_of(broker, synonyms[0].name) if synonyms else ()


def _levels_of(config: BrokerConfig, name: str) -> tuple[SynonymEntry, ...]:
    """Returns the values of a broker's key and its synonyms at each level.

    As in Kafka, entries before the first one with the key's own name are left out: for a default `log.retention.ms`
    nothing is left, although `log.retention.hours` takes effect.
    """
    hidden = _is_sensitive(definition_of(name))
    names = synonyms_of(name)
    said = [
        SynonymEntry(synonym, None if hidden else settings[synonym], source)
        for settings, source in config.layers
        for synonym in names
        if synonym in settings
    ]
    defaults = [
        SynonymEntry(synonym, None if hidden else text, ConfigSource.DEFAULT_CONFIG)
        for synonym in names
        if synonym in BROKER and (text := BROKER[synonym].default_spelling) is not None
    ]
    return tuple(dropwhile(lambda level: level.name != name, [*said, *defaults]))
