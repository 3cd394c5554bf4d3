"""A topic's LogConfig from the names and strings of Kafka's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from cordwood.log.config import LogConfig, TimestampType
from cordwood.wire.compression import Codec

# The broker's defaults for topics.
_BROKER_NAMES = {
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.cleanup.policy": "cleanup.policy",
    "compression.type": "compression.type",
}
_CODECS: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE},
}


def log_config(broker: Mapping[str, str], topic: Mapping[str, str]) -> LogConfig:
    """The log's settings; others are ignored."""
    settings = {_BROKER_NAMES[name]: value for name, value in broker.items() if name in _BROKER_NAMES} | dict(topic)
    # How Kafka's tests have segments of less than the smallest size allowed.
    settings["segment.bytes"] = settings.get("internal.segment.bytes", settings.get("segment.bytes", "1073741824"))
    config = LogConfig()
    kinds = {field.name: type(getattr(config, field.name)) for field in fields(config)}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        field = name.replace(".", "_")
        if kinds.get(field) in (int, float):
            values[field] = kinds[field](value)
    policies = settings.get("cleanup.policy", "delete").split(",")
    return replace(
        config,
        **values,
        compact="compact" in policies,
        delete="delete" in policies,
        compression_type=_CODECS[settings.get("compression.type", "producer")],
        message_timestamp_type=TimestampType(settings.get("message.timestamp.type", "CreateTime")),
    )


def read_properties(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}
