"""A broker's keys: definitions by name, with or without a listener's prefix, and synonyms."""

from __future__ import annotations

import re

from cordwood.config.definition import Definition, UpdateMode
from cordwood.config.definitions.broker import BROKER, BROKER_QUOTAS, LISTENER_PREFIXED

LISTENER_PREFIX = "listener.name."

# These have a SASL mechanism between the listener's name and the key: listener.name.inner.plain.sasl.jaas.config.
_MECHANISM_KEYS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
# Keys of a listener that may be changed for all brokers at once.
_CLUSTER_LEVEL = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
# Kafka opens and closes listeners while it runs; here they are fixed at the start.
_AT_START_ONLY = frozenset({"advertised.listeners", "listener.security.protocol.map", "listeners"})
_PREFIXED = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)


def definition_of(name: str) -> Definition | None:
    """Returns the definition of a key; a listener's key has that of the key after its prefix."""
    if definition := BROKER.get(name) or BROKER_QUOTAS.get(name):
        return definition
    base = base_of(name)
    return None if base is None else BROKER.get(base)


def base_of(name: str) -> str | None:
    """Returns the key after a listener's prefix (and mechanism); None without a prefix."""
    prefixed = _PREFIXED.fullmatch(name)
    if prefixed is None:
        return None
    base = prefixed[1]
    return next((key for key in _MECHANISM_KEYS if base.endswith(key)), base)


def listener_of(name: str) -> str | None:
    """Returns the listener in a key's prefix, in upper case; None without a prefix."""
    return name.split(".")[2].upper() if _PREFIXED.fullmatch(name) else None


def synonyms_of(name: str) -> tuple[str, ...]:
    """Returns all synonyms in order of precedence; a listener's key before the one for all listeners."""
    base = base_of(name)
    if base is not None:
        return (name, base)
    definition = BROKER.get(name)
    return definition.synonyms if definition and definition.synonyms else (name,)


def is_read_only(name: str) -> bool:
    """True if the key can be set only before the start. Kafka also reports a listener's keys so, although they can be
    changed."""
    definition = BROKER.get(name)
    return name not in BROKER_QUOTAS and (definition is None or not definition.dynamic)


def is_never_dynamic(name: str) -> bool:
    return name in BROKER and (not BROKER[name].dynamic or name in _AT_START_ONLY)


def needs_listener_prefix(name: str) -> bool:
    return name in LISTENER_PREFIXED


def is_per_broker(name: str) -> bool:
    """True if the key cannot be changed for all brokers at once."""
    prefixed = _PREFIXED.fullmatch(name)
    if prefixed:
        return prefixed[1] not in _CLUSTER_LEVEL
    definition = BROKER.get(name)
    return definition is not None and definition.update is UpdateMode.PER_BROKER
