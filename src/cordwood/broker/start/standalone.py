"""The configuration of a standalone node, for which settings that Kafka requires in `server.properties` are
optional."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig, Settings, overlaid
from cordwood.config.definitions.broker import BROKER
from cordwood.config.keys import LISTENER_PREFIX
from cordwood.config.layers import Layer
from cordwood.config.network.listeners import SecurityProtocol, parse_protocol_map

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA = "cordwood-data"
_BOTH_ROLES = "broker,controller"
_CONTROLLER = "CONTROLLER"
_QUORUM_ENDPOINT = f"{_CONTROLLER}://127.0.0.1:0"
_PROTOCOLS = BROKER["listener.security.protocol.map"].default_spelling


def node_config(*layers: Layer, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> BrokerConfig:
    """Returns the configuration of a node. A cluster node (it has one of the two roles, or other controllers are named)
    has Kafka's defaults only; any other node is standalone. Raises `ConfigError`."""
    said = overlaid(*(layer.settings for layer in layers))
    roles = {role.strip() for role in said.get("process.roles", _BOTH_ROLES).split(",")}
    if roles >= set(_BOTH_ROLES.split(",")):
        config = standalone_config(*layers, host=host, port=port)
        if config.stands_alone:
            return config
    return BrokerConfig.from_layers(*layers)


def standalone_config(*layers: Layer, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> BrokerConfig:
    """Adds the standalone defaults under the given layers, of which later ones take precedence: both roles, node 1, a
    listener for clients on `host` and `port`, and one for the quorum on any free port. Raises `ConfigError`.

    A configuration that only sets client listeners need not mention the quorum: its listener is added to them.
    """
    said = overlaid(*(layer.settings for layer in layers))
    base = Layer("the defaults", _base(said, host, port))
    return BrokerConfig.from_layers(base, *layers, Layer("the defaults", _quorum_listener(said)))


def _base(said: Settings, host: str, port: int) -> dict[str, str]:
    base = {
        "process.roles": _BOTH_ROLES,
        "controller.listener.names": _CONTROLLER,
        "log.dirs": DEFAULT_DATA,
        # Internal topics of a single node have one replica, as in Kafka's own example configuration.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    if not said.keys() & {"node.id", "broker.id"}:
        base["node.id"] = "1"
    if "log.dir" in said:
        del base["log.dirs"]
    if "listeners" not in said:
        shown = f"[{host}]" if ":" in host else host
        base["listeners"] = f"PLAINTEXT://{shown}:{port},{_QUORUM_ENDPOINT}"
    elif not said.keys() & {"inter.broker.listener.name", "security.inter.broker.protocol"}:
        # There are no other brokers, but Kafka requires it to be one of the listeners.
        controllers = said.get("controller.listener.names", _CONTROLLER).upper().split(",")
        names = [entry.partition(":")[0].strip() for entry in said["listeners"].split(",")]
        base["inter.broker.listener.name"] = next((name for name in names if name.upper() not in controllers), names[0])
    if not said.keys() & {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}:
        base["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{port or DEFAULT_PORT}"
    return base


def _quorum_listener(said: Settings) -> dict[str, str]:
    listeners = said.get("listeners")
    if listeners is None or "controller.listener.names" in said or _CONTROLLER in listeners.upper():
        return {}
    protocols = said.get("listener.security.protocol.map", _PROTOCOLS)
    return {
        "listeners": f"{listeners},{_QUORUM_ENDPOINT}",
        **_quorum_protocol(said, listeners, protocols or ""),
    }


def _quorum_protocol(said: Settings, listeners: str, protocols: str) -> dict[str, str]:
    """Administrative requests are served here too: if every client must use TLS, this listener uses it as well, with
    the settings of the first."""
    names = [entry.partition(":")[0].strip().upper() for entry in listeners.split(",")]
    mapped = parse_protocol_map(protocols)
    if any(mapped.get(name) is not SecurityProtocol.SSL for name in names):
        return {"listener.security.protocol.map": f"{protocols},{_CONTROLLER}:PLAINTEXT"}
    prefix, own_prefix = (f"{LISTENER_PREFIX}{name.lower()}." for name in (names[0], _CONTROLLER))
    settings = {own_prefix + key.removeprefix(prefix): text for key, text in said.items() if key.startswith(prefix)}
    return {"listener.security.protocol.map": f"{protocols},{_CONTROLLER}:SSL", **settings}
