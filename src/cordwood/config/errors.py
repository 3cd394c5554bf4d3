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


class UnknownKey(ConfigError):
    def __init__(self, name: str, value: str, known: Iterable[str]) -> None:
        near = nearest(name, known)
        hint = f"; did you mean {near}?" if near else "; docs/configuration.md lists all settings"
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
