"""The brokers whose answers the tests compare with: the one of the data directory, and the one of configs.json.gz."""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from cordwood.config.broker import BrokerConfig
from cordwood.config.definition import ResourceType
from cordwood.config.layers import Layer, file_layer

VECTORS = Path(__file__).parent.parent / "vectors"

# The minimal settings of a node.
MINIMAL = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}

Settings = dict[tuple[int, str], dict[str, str]]


def broker(**settings: str) -> BrokerConfig:
    """A minimal one; `log_retention_ms="5"` says log.retention.ms=5."""
    return told({name.replace("_", "."): value for name, value in settings.items()})


def told(settings: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.from_layers(Layer("the minimum", MINIMAL), Layer("server.properties", settings))


@cache
def data_dir_facts() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "kafka-data-dir.json.gz").read_bytes()))
    return loaded


@cache
def data_dir_settings() -> Settings:
    """The settings in its metadata log, by resource."""
    settings: Settings = {}
    for record in sorted(_config_records(data_dir_facts()["partitions"]), key=lambda record: int(record["offset"])):
        data = record["decoded"]["data"]
        of_resource = settings.setdefault((data["resourceType"], data["resourceName"]), {})
        if data["value"] is None:
            of_resource.pop(data["name"], None)
        else:
            of_resource[data["name"]] = data["value"]
    return settings


@cache
def data_dir_broker() -> BrokerConfig:
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as tar:
        file = tar.extractfile("data/server.properties")
        assert file is not None
        layer = file_layer(file.read().decode(), "server.properties")
    # Where it lay is not in its file.
    config = BrokerConfig.from_layers(layer, Layer("--set", {"log.dirs": "/tmp/oracle/a/data"}))
    settings = data_dir_settings()
    return config.with_dynamic(settings[ResourceType.BROKER, ""], settings[ResourceType.BROKER, "1"])


@cache
def answers() -> dict[str, Any]:
    """Kafka 4.3.1's recorded responses to changes, and descriptions after some of them.

    Recorded from a node that `shared/anchors/kafka-run` had just formatted: `altered` are requests to it with
    validate_only and its answers, one by one; `settings` was then really set, and `described` is its answer.
    """
    loaded: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "configs.json.gz").read_bytes()))
    return loaded


@cache
def answering_broker() -> BrokerConfig:
    """As it was when changes were tried: freshly formatted."""
    static = file_layer(answers()["serverProperties"], "server.properties")
    return BrokerConfig.from_layers(static).with_dynamic({"min.insync.replicas": "1"}, {})


def _config_records(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [record for item in node for record in _config_records(item)]
    if not isinstance(node, dict):
        return []
    decoded = node.get("decoded")
    if isinstance(decoded, dict) and decoded.get("type") == "ConfigRecord":
        return [node]
    return [record for item in node.values() for record in _config_records(item)]
