"""A group's configuration: its own settings over the broker's defaults."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.config.definitions.group import GROUP
from cordwood.config.errors import ConfigError
from cordwood.config.validation.values import Value


def group_values(broker: BrokerConfig, settings: Settings) -> dict[str, Value]:
    """Returns every key of a group with its effective value. Raises ConfigError for an invalid setting."""
    return {
        name: definition.read(settings[name]) if name in settings else broker.fallback(definition)
        for name, definition in GROUP.items()
    }


def check_group(broker: BrokerConfig, settings: Settings) -> None:
    """Raises ConfigError, with Kafka's message, unless a group may have these settings."""
    for name in settings:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    values = group_values(broker, settings)
    for name in _LIMITED:
        kind, _, what = name.partition(".")
        least, most = f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"
        if _integer(values, name) < broker.integer(least):
            raise ConfigError(f"{name} must be greater than or equal to {least}")
        if _integer(values, name) > broker.integer(most):
            raise ConfigError(f"{name} must be less than or equal to {most}")
    most = "group.streams.max.standby.replicas"
    if _integer(values, "streams.num.standby.replicas") > broker.integer(most):
        raise ConfigError(f"streams.num.standby.replicas must be less than or equal to {most}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _integer(values, session) <= _integer(values, heartbeat):
            raise ConfigError(f"{session} must be greater than {heartbeat}")


# Keys for which the broker sets a minimum and a maximum.
_LIMITED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.assignment.interval.ms",
)


def _integer(values: dict[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), name
    return value
