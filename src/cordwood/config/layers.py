"""Layers of a broker's static configuration: a file, the environment, the command line; later ones take precedence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cordwood.config.definitions.broker import BROKER
from cordwood.config.errors import ConfigError, nearest
from cordwood.config.keys import LISTENER_PREFIX
from cordwood.config.properties import BadProperties, parse_properties

ENVIRONMENT_PREFIX = "CORDWOOD_"
# Set by a Spark session for its child processes, and inherited by a node that is started from one.
_SPARKS_PREFIX = "CORDWOOD_SPARK_"


@dataclass(frozen=True, slots=True)
class Layer:
    # The name in messages: "server.properties", "the environment", "--set".
    origin: str
    settings: Mapping[str, str]


def file_layer(text: str, origin: str) -> Layer:
    try:
        return Layer(origin, parse_properties(text))
    except BadProperties as error:
        raise ConfigError(f"{origin}: {error}") from error


def environment_layer(environment: Mapping[str, str], ignore: Collection[str] = ()) -> Layer:
    """Reads `CORDWOOD_` and the key in upper case, with `_` for each dot: CORDWOOD_LOG_RETENTION_MS is
    log.retention.ms.

    For one listener: CORDWOOD_LISTENER_NAME_<LISTENER>_<KEY>. Keys of a SASL mechanism have no variable. `ignore` are
    variables with that prefix that mean something else.
    """
    named = {name for name in environment if name.startswith(ENVIRONMENT_PREFIX)}
    variables = {name for name in named if not name.startswith(_SPARKS_PREFIX)} - set(ignore)
    return Layer("the environment", {_key_of(name): environment[name] for name in sorted(variables)})


def command_line_layer(assignments: Iterable[str]) -> Layer:
    """Parses `name=value` items; the last one for a name counts."""
    settings = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {assignment}: expected name=value, as in --set log.retention.hours=24")
        settings[name.strip()] = value
    return Layer("--set", settings)


def variable_of(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


_KEYS = {variable_of(key): key for key in BROKER}


def _key_of(variable: str) -> str:
    if key := _KEYS.get(variable):
        return key
    listener_prefix = variable_of(LISTENER_PREFIX)
    if variable.startswith(listener_prefix):
        rest = variable.removeprefix(listener_prefix)
        # Names of listeners and keys may contain underscores: the longest key that matches the end is used.
        for cut in range(1, len(rest)):
            if rest[cut] == "_" and (key := _KEYS.get(ENVIRONMENT_PREFIX + rest[cut + 1 :])):
                return f"{LISTENER_PREFIX}{rest[:cut].lower()}.{key}"
    near = nearest(variable, _KEYS)
    hint = f"; did you mean {near} ({_KEYS[near]})?" if near else ""
    raise ConfigError(f"Unknown configuration {variable} in the environment{hint}")
