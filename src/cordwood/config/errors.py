"""Configuration errors."""

from __future__ import annotations

from collections.abc import Iterable

from cordwood.wire.errors import ErrorCode


class ConfigError(Exception):
    """An invalid configuration; the message is Kafka's if Kafka has one.

    `code` is the error code in responses; for a broker's configuration Kafka always returns INVALID_REQUEST.
    """

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_CONFIG) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class InvalidValue(ConfigError):
    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.reason = reason


# Settings of older brokers that many a server.properties still has. The name most like theirs would mislead.
_REMOVED = frozenset(
    {
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "inter.broker.protocol.version",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
    }
)


class UnknownKey(ConfigError):
    def __init__(self, name: str, value: str, known: Iterable[str]) -> None:
        if name.startswith("zookeeper."):
            hint = ", which is for brokers with ZooKeeper; here controllers take its place (process.roles)"
        elif name in _REMOVED:
            hint = ", which Kafka 4 has no longer: leave it out"
        elif near := nearest(name, known):
            hint = f"; did you mean {near}?"
        else:
            hint = "; docs/configuration.md lists all settings"
        super().__init__(f"Unknown configuration {name} (value {value!r}){hint}")
        self.name = name


class BadConfiguration(ConfigError):
    """Carries all reasons why a node cannot start, one per line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)
