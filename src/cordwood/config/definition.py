"""Definitions of configuration keys, generated into `definitions/` from Kafka's facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import NamedTuple

from cordwood.config.validation.validity import Distinct, Validity
from cordwood.config.validation.values import Type, Value, parse, spell


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """The scope in which a value can be changed while the node runs."""

    READ_ONLY = "read-only"
    # For a single broker only.
    PER_BROKER = "per-broker"
    # For a single broker, or for all brokers at once.
    CLUSTER_WIDE = "cluster-wide"
    PER_TOPIC = "per-topic"
    PER_GROUP = "per-group"


class ConfigSource(IntEnum):
    """Sources of a value: the names of Kafka's admin client, the numbers of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ResourceType(IntEnum):
    """The resource types of configurations, as in the requests."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Synonym(NamedTuple):
    """A broker key that serves as the default of a topic's or group's key, in a coarser unit if `multiply_by` is not
    1."""

    name: str
    multiply_by: int = 1


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    type: Type
    default: Value = None
    valid: Validity | None = None
    importance: Importance = Importance.MEDIUM
    update: UpdateMode = UpdateMode.READ_ONLY
    # No default: the key is required.
    required: bool = False
    # Internal to Kafka; described only when it is set.
    internal: bool = False
    # For a broker's key: all its synonyms, including itself, in order of precedence.
    synonyms: tuple[str, ...] = ()
    # For a topic's or group's key: the broker keys that it falls back to, in order of precedence.
    broker_synonyms: tuple[Synonym, ...] = ()

    @property
    def sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def default_spelling(self) -> str | None:
        return spell(self.default)

    @property
    def dynamic(self) -> bool:
        return self.update is not UpdateMode.READ_ONLY

    def read(self, text: str) -> Value:
        """Parses and validates `text`; raises ConfigError."""
        value = parse(self.name, text, self.type)
        # Repeated entries are dropped; Kafka plans to refuse them (KIP-1161).
        if isinstance(self.valid, Distinct) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        if self.valid is not None:
            self.valid.check(self.name, value)

    @property
    def allowed(self) -> str:
        """Describes the allowed values, for messages and documentation."""
        kind = _TYPE_WORDS[self.type]
        return f"{kind}, {self.valid}" if self.valid is not None else kind


_TYPE_WORDS = {
    Type.BOOLEAN: "true or false",
    Type.STRING: "text",
    Type.INT: "a 32-bit number",
    Type.SHORT: "a 16-bit number",
    Type.LONG: "a 64-bit number",
    Type.DOUBLE: "a number",
    Type.LIST: "a comma-separated list",
    Type.CLASS: "the name of a class",
    Type.PASSWORD: "a secret",
}

Definitions = Mapping[str, Definition]


def index(*definitions: Definition) -> Definitions:
    """Indexes the definitions by name, preserving their order; read-only."""
    return MappingProxyType({definition.name: definition for definition in definitions})
