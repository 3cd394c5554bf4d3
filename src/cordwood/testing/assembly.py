"""Builds a node for tests from the real parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.errors import ConfigError
from cordwood.config.layers import Layer
from cordwood.net.measures import Measures
from cordwood.node import CannotStart, Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import NetworkError
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

if TYPE_CHECKING:
    from cordwood.registry.server import RegistryServer

# Errors that prevent a start without being our bug.
START_ERRORS = (ConfigError, CannotStart, TlsError, DiskError, NetworkError)

# Defaults that differ for tests: groups rebalance and timeouts fire at once, not after seconds that spare a large
# cluster requests, and records stay, whatever their timestamps. docs/testing.md lists them.
TEST_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.retention.ms": "-1",
}


async def start_node(
    settings: Mapping[str, str],
    data: str,
    port: int,
    stopped: asyncio.Event | None = None,
    measures: Measures | None = None,
) -> Node:
    """Starts a node on the running event loop. Raises `START_ERRORS`."""
    base = Layer("the defaults for tests", TEST_DEFAULTS | {"log.dirs": data})
    config = standalone_config(base, Layer("settings", settings), port=port)
    return await Node.start(
        config,
        network=SocketNetwork(),
        clock=SystemClock(),
        random=SeededRandom(),
        open_disk=LocalDisk,
        measures=measures,
        stopped=stopped,
    )


async def start_registry(node: Node, port: int) -> RegistryServer:
    """Starts a schema registry beside a node."""
    from cordwood.registry.registry import RegistrySettings, reaching
    from cordwood.registry.server import RegistryServer

    settings = RegistrySettings(reaching(node.bootstrap))
    return await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", port)
