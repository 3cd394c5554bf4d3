"""A subscription to client metrics (KIP-714): which clients, which metrics, and how often."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cordwood.config.broker import Settings
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.errors import ConfigError
from cordwood.config.validation.values import Value
from cordwood.wire.errors import ErrorCode

MIN_INTERVAL_MS = 100
MAX_INTERVAL_MS = 3_600_000

_MATCHED = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_client_metrics(settings: Settings) -> None:
    """Raises ConfigError, with Kafka's message, unless a subscription may have these settings."""
    for name in settings:
        if name not in CLIENT_METRICS:
            raise ConfigError(f"Unknown client metrics configuration: {name}", ErrorCode.INVALID_REQUEST)
    values = {name: CLIENT_METRICS[name].read(text) for name, text in settings.items()}
    interval_ms = values.get("interval.ms")
    if isinstance(interval_ms, int) and not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise ConfigError(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            ErrorCode.INVALID_REQUEST,
        )
    parse_match(_items(values.get("match")))


def parse_match(patterns: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """Parses `client_id=regex` entries. Java's and Python's expressions agree in common usage."""
    compiled = {}
    for pattern in patterns:
        name, equals, expression = pattern.partition("=")
        if name.strip() not in _MATCHED or not equals or not expression or "=" in expression:
            raise ConfigError(f"Illegal client matching pattern: {pattern}")
        try:
            compiled[name.strip()] = re.compile(expression.strip())
        except re.error:
            raise ConfigError(f"Illegal client matching pattern: {pattern}") from None
    return compiled


def _items(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
