"""The configuration of a node that stands alone: what Kafka asks for in `server.properties` and a first start can do
without."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA = "cordwood-data"
_CONTROLLER = "CONTROLLER"


def standalone_config(*layers: Layer, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> BrokerConfig:
    """Under the given layers, of which the later wins, lies what makes a node of its own: both roles, node 1, a
    listener for clients on `host` and `port`, and one for the quorum on any free port. Raises `ConfigError`."""
    return BrokerConfig.from_layers(Layer("the defaults", _base(layers, host, port)), *layers)


def _base(layers: tuple[Layer, ...], host: str, port: int) -> dict[str, str]:
    said = {name for layer in layers for name in layer.settings}
    base = {
        "process.roles": "broker,controller",
        "controller.listener.names": _CONTROLLER,
        "log.dirs": DEFAULT_DATA,
        # Internal topics of one node have one replica; Kafka's own example configuration has it so too.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
    if not said & {"node.id", "broker.id"}:
        base["node.id"] = "1"
    if "log.dir" in said:
        del base["log.dirs"]
    if "listeners" not in said:
        shown = f"[{host}]" if ":" in host else host
        base["listeners"] = f"PLAINTEXT://{shown}:{port},{_CONTROLLER}://127.0.0.1:0"
    if not said & {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}:
        base["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{port or DEFAULT_PORT}"
    return base
