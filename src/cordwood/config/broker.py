"""A broker's configuration: defaults, static settings and dynamic settings, combined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from cordwood.config.definition import ConfigSource, Definition
from cordwood.config.definitions.broker import BROKER, BROKER_QUOTAS
from cordwood.config.errors import BadConfiguration, ConfigError, InvalidValue, UnknownKey
from cordwood.config.keys import (
    LISTENER_PREFIX,
    base_of,
    definition_of,
    is_never_dynamic,
    is_per_broker,
    needs_listener_prefix,
    synonyms_of,
)
from cordwood.config.layers import Layer
from cordwood.config.network.listeners import (
    Listeners,
    effective_protocols,
    parse_endpoints,
    parse_protocol_map,
)
from cordwood.config.quorum import QuorumSettings, parse_address, parse_voters
from cordwood.config.validation.broker_rules import check_broker
from cordwood.config.validation.protection import ADVICE, broken_promise, check_protection, promises_nothing
from cordwood.config.validation.values import Password, Value
from cordwood.log.cleaning.cleaner import CleanerConfig
from cordwood.runtime.network import Address

Settings = Mapping[str, str]

# Required keys and what to set instead.
_HINTS = {
    "controller.listener.names": " Name the listener on which controllers are reached, for example "
    "controller.listener.names=CONTROLLER."
}


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value and its source."""

    value: Value
    source: ConfigSource


class BrokerConfig:
    """Immutable: a change creates a new one.

    >>> config = BrokerConfig.from_layers(Layer("--set", {"node.id": "1", ...}))
    >>> config.integer("num.partitions")
    1
    """

    def __init__(
        self, static: Settings, dynamic_default: Settings | None = None, dynamic_broker: Settings | None = None
    ) -> None:
        """Raises ConfigError if a value, or the combination of values, is invalid.

        Invalid dynamic settings are ignored, as in Kafka: they are in `left_out`.
        """
        self.static = _with_both_ids(static)
        self.left_out: list[str] = []
        self.dynamic_default = self._usable(dynamic_default or {}, for_all=True)
        self.dynamic_broker = self._usable(dynamic_broker or {}, for_all=False)
        # Set values by source; a later layer removes the synonyms of its keys.
        self.settings = overlaid(self.static, self.dynamic_default, self.dynamic_broker)
        self._values = _read_all(self.settings)
        check_broker(self)

    @classmethod
    def from_layers(cls, *layers: Layer) -> BrokerConfig:
        """Combines static layers, of which later ones take precedence; reports all errors at once."""
        problems = [problem for layer in layers for problem in _problems_of(layer)]
        static = overlaid(*(layer.settings for layer in layers))
        problems += [
            f'Missing required configuration "{name}" which has no default value.{_HINTS.get(name, "")}'
            for name, definition in BROKER.items()
            if definition.required and name not in _with_both_ids(static)
        ]
        if problems:
            raise BadConfiguration(problems)
        promises = list(_broken_promises(static, layers))
        try:
            config = cls(static)
            check_protection(config)
        except ConfigError as error:
            if not promises:
                raise
            promises.append(error.message)
        if promises:
            raise BadConfiguration([*promises, ADVICE])
        return config

    def with_dynamic(self, default: Settings, broker: Settings) -> BrokerConfig:
        """Returns the configuration with these dynamic settings, cluster-wide and for this broker, instead of the
        previous ones."""
        return BrokerConfig(self.static, default, broker)

    # Reading

    def __getitem__(self, name: str) -> Value:
        """Returns the effective value; for `log.retention.ms` and the like, only that of the key itself."""
        return self._values[name] if name in self._values else (BROKER.get(name) or BROKER_QUOTAS[name]).default

    def integer(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        value = self[name]
        assert isinstance(value, int | float), name
        return value

    def flag(self, name: str) -> bool:
        value = self[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        value = self[name]
        assert isinstance(value, str), name
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """Returns a list; empty if it is not set."""
        value = self[name]
        assert isinstance(value, tuple) or value is None, name
        return value or ()

    def secret(self, name: str) -> str | None:
        value = self[name]
        assert isinstance(value, Password) or value is None, name
        return value.secret if value else None

    def for_listener(self, listener: str, name: str) -> Value:
        """The value of `listener.name.<listener>.<name>`, or else of `name` for all listeners.

        A mechanism may precede the name: `plain.sasl.jaas.config`.
        """
        prefixed = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
        return self._values[prefixed] if prefixed in self._values else self[base_of(prefixed) or name]

    def sourced(self, name: str) -> Sourced:
        for settings, source in self.layers:
            if name in settings:
                return Sourced(self[name], source)
        return Sourced(self[name], ConfigSource.DEFAULT_CONFIG)

    @property
    def layers(self) -> tuple[tuple[Settings, ConfigSource], ...]:
        """The settings by layer, highest precedence first."""
        return (
            (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, ConfigSource.STATIC_BROKER_CONFIG),
        )

    # Derived values

    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return self.items("log.dirs") or self.items("log.dir")

    @property
    def metadata_log_dir(self) -> str:
        """The directory that holds the metadata log; it may be one of `log_dirs`."""
        return str(self["metadata.log.dir"] or self.log_dirs[0])

    @property
    def stands_alone(self) -> bool:
        """True if the node is a cluster by itself: it has both roles, and no other controller is named."""
        reached_at = [Address(end.host or "localhost", end.port) for end in self.listeners.advertised_controllers]
        return {"broker", "controller"} <= set(self.items("process.roles")) and self.quorum.names_only(
            self.node_id, reached_at
        )

    def fallback(self, definition: Definition) -> Value:
        """Returns the value of a topic's or group's key that the topic or group does not set itself."""
        for synonym in definition.broker_synonyms:
            value = self[synonym.name]
            if value is not None:
                # A bool is an int in Python, but has no units.
                return value * synonym.multiply_by if isinstance(value, int) and synonym.multiply_by != 1 else value
        return definition.default

    @cached_property
    def quorum(self) -> QuorumSettings:
        return QuorumSettings(
            parse_voters(self.items("controller.quorum.voters")),
            tuple(parse_address(entry) for entry in self.items("controller.quorum.bootstrap.servers")),
            self.items("controller.listener.names")[0].upper(),
        )

    @cached_property
    def listeners(self) -> Listeners:
        controllers = tuple(name.upper() for name in self.items("controller.listener.names"))
        bound = self.items("listeners")
        protocols = effective_protocols(
            parse_protocol_map(self.text("listener.security.protocol.map")),
            is_default="listener.security.protocol.map" not in self.settings,
            controllers=controllers,
            listeners=bound,
        )
        endpoints = parse_endpoints(bound, protocols)
        advertised = self.items("advertised.listeners")
        name = self["inter.broker.listener.name"]
        if name is not None and "security.inter.broker.protocol" in self.settings:
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
            )
        inter_broker = str(name or self.text("security.inter.broker.protocol")).upper()
        if name is not None and inter_broker not in protocols:
            raise ConfigError(
                f"Listener with name {inter_broker} defined in inter.broker.listener.name not found in "
                "listener.security.protocol.map."
            )
        return Listeners(
            bound=endpoints,
            advertised=parse_endpoints(advertised, protocols, distinct_ports=False) if advertised else endpoints,
            controllers=controllers,
            inter_broker=inter_broker,
            protocols=protocols,
            own_voter=self.quorum.static_voters.get(self.node_id),
        )

    @cached_property
    def cleaner(self) -> CleanerConfig:
        return CleanerConfig(
            enable=self.flag("log.cleaner.enable"),
            threads=self.integer("log.cleaner.threads"),
            dedupe_buffer_size=self.integer("log.cleaner.dedupe.buffer.size"),
            io_buffer_load_factor=self.number("log.cleaner.io.buffer.load.factor"),
            io_buffer_size=self.integer("log.cleaner.io.buffer.size"),
            io_max_bytes_per_second=self.number("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=self.integer("log.cleaner.backoff.ms"),
        )

    def _usable(self, settings: Settings, *, for_all: bool) -> Settings:
        usable = {}
        for name, value in settings.items():
            problem = _dynamic_problem(name, value, for_all=for_all)
            if problem:
                self.left_out.append(problem)
            else:
                usable[name] = value
        return usable


def overlaid(*layers: Settings) -> dict[str, str]:
    """Merges layers. A later layer also replaces synonyms, even those that would take precedence over it."""
    settings: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            for synonym in synonyms_of(name) if not name.startswith(LISTENER_PREFIX) else (name,):
                settings.pop(synonym, None)
        settings.update(layer)
    return settings


def describe_problem(definition: Definition, text: str, error: ConfigError, origin: str) -> str:
    """Describes what is wrong, where it was set, and what would be right."""
    shown = "[hidden]" if definition.sensitive else text
    reason = error.reason if isinstance(error, InvalidValue) else error.message
    return f"{origin}: {definition.name}={shown}: {reason.rstrip('.')} (allowed: {definition.allowed})"


def _problems_of(layer: Layer) -> Iterable[str]:
    for name, text in layer.settings.items():
        definition = definition_of(name) if name not in _DYNAMIC_ONLY else None
        if definition is None:
            if promises_nothing(name, text):
                continue
            promise = broken_promise(name, text)
            yield f"{layer.origin}: " + (
                f"{name}={text}: {promise}" if promise else str(UnknownKey(name, text, BROKER))
            )
            continue
        try:
            definition.read(text)
        except ConfigError as error:
            yield describe_problem(definition, text, error, layer.origin)


def _broken_promises(static: Settings, layers: Iterable[Layer]) -> Iterable[str]:
    """Checks effective values only: a setting that a later layer overrides promises nothing."""
    origins = {name: layer.origin for layer in layers for name in layer.settings}
    for name, text in static.items():
        promise = broken_promise(name, text)
        if promise:
            definition = definition_of(name)
            shown = "[hidden]" if definition is not None and definition.sensitive else text
            yield f"{origins[name]}: {name}={shown}: {promise}"


def _dynamic_problem(name: str, value: str, *, for_all: bool) -> str | None:
    """Returns the reason why a stored setting is ignored. Unknown ones are kept: they are described, but have no
    effect."""
    if is_never_dynamic(name):
        return f"{name} cannot be changed while a node runs"
    if needs_listener_prefix(name):
        return f"{name} can be changed for one listener only, with its prefix"
    if for_all and is_per_broker(name):
        return f"{name} can be changed for one broker only"
    definition = definition_of(name)
    if definition is not None:
        try:
            definition.read(value)
        except ConfigError as error:
            return error.message
    promise = broken_promise(name, value)
    return f"{name} is ignored, since {promise}" if promise else None


def _read_all(settings: Settings) -> dict[str, Value]:
    definitions = {name: definition_of(name) for name in settings}
    return {name: known.read(settings[name]) for name, known in definitions.items() if known is not None}


def _with_both_ids(static: Settings) -> Settings:
    """Treats `node.id` and `broker.id` as one setting."""
    ids = {"node.id": static.get("node.id"), "broker.id": static.get("broker.id")}
    either = ids["node.id"] or ids["broker.id"]
    if either is None:
        return dict(static)
    return {**static, **{name: value or either for name, value in ids.items()}}


# Set only while a broker runs, never statically.
_DYNAMIC_ONLY = frozenset(BROKER_QUOTAS)
