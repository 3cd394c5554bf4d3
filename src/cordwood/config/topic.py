"""A topic's configuration: its own settings over the broker's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.errors import ConfigError
from cordwood.config.validation.values import Value
from cordwood.log.config import LogConfig, TimestampType
from cordwood.wire.compression import Codec


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective configuration of a topic: that of its logs, and the rest."""

    log: LogConfig
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    preallocate: bool
    # "partition:broker" each, or "*".
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]


class TopicConfigs:
    """Every topic's configuration, worked out when it is first asked for.

    Topics that say the same share one object.
    """

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._settings: dict[str, Settings] = {}
        self._by_topic: dict[str, TopicConfig] = {}
        self._by_settings: dict[frozenset[tuple[str, str]], TopicConfig] = {}

    def of(self, topic: str) -> TopicConfig:
        config = self._by_topic.get(topic)
        if config is None:
            settings = self._settings.get(topic, {})
            said = frozenset(settings.items())
            config = self._by_settings.get(said)
            if config is None:
                config = self._by_settings[said] = topic_config(self._broker, settings)
            self._by_topic[topic] = config
        return config

    def settings_of(self, topic: str) -> Settings:
        """The settings of the topic itself."""
        return self._settings.get(topic, {})

    def set_topic(self, topic: str, settings: Settings) -> None:
        """Replaces a topic's settings; an empty mapping removes the topic."""
        self._by_topic.pop(topic, None)
        if settings:
            self._settings[topic] = dict(settings)
        else:
            self._settings.pop(topic, None)

    def set_broker(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._by_topic.clear()
        self._by_settings.clear()


def topic_config(broker: BrokerConfig, settings: Settings) -> TopicConfig:
    """Raises ConfigError for an invalid setting."""
    values = topic_values(broker, settings)
    return TopicConfig(
        log=_log_config(values),
        min_insync_replicas=_integer(values, "min.insync.replicas"),
        unclean_leader_election_enable=values["unclean.leader.election.enable"] is True,
        preallocate=values["preallocate"] is True,
        leader_replication_throttled_replicas=_items(values, "leader.replication.throttled.replicas"),
        follower_replication_throttled_replicas=_items(values, "follower.replication.throttled.replicas"),
    )


def topic_values(broker: BrokerConfig, settings: Settings) -> dict[str, Value]:
    """Every topic-level key with its effective value."""
    values = {
        name: definition.read(settings[name]) if name in settings else broker.fallback(definition)
        for name, definition in TOPIC.items()
    }
    if _integer(values, "retention.ms") < 0:
        values["retention.ms"] = -1
    return values


def check_topic(broker: BrokerConfig, settings: Settings) -> None:
    """Raises ConfigError, in Kafka's words, unless a topic may have these settings."""
    for name in settings:
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = topic_values(broker, settings)
    least, most = _integer(values, "min.compaction.lag.ms"), _integer(values, "max.compaction.lag.ms")
    if least > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


_CODECS: Mapping[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE},
}


def _log_config(values: Mapping[str, Value]) -> LogConfig:
    keys = {field.name: field.name.replace("_", ".") for field in fields(LogConfig) if field.init}
    numbers = {name: _number(values, key) for name, key in keys.items() if name not in _SPECIAL}
    # How Kafka's tests have segments of less than the smallest size allowed.
    if values["internal.segment.bytes"] is not None:
        numbers["segment_bytes"] = _integer(values, "internal.segment.bytes")
    policies = _items(values, "cleanup.policy")
    return LogConfig(
        compact="compact" in policies,
        delete="delete" in policies,
        compression_type=_CODECS[str(values["compression.type"])],
        message_timestamp_type=TimestampType(values["message.timestamp.type"]),
        **numbers,  # type: ignore[arg-type]  # whole where the key is: the definitions see to that
    )


# Settings whose value is not a single number in both.
_SPECIAL = frozenset({"compact", "delete", "compression_type", "message_timestamp_type"})


def _integer(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value


def _number(values: Mapping[str, Value], name: str) -> int | float:
    value = values[name]
    assert isinstance(value, int | float), name
    return value


def _items(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    assert isinstance(value, tuple), name
    return value
