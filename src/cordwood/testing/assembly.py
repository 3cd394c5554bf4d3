"""A node made of the real parts, from what a test says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cordwood.broker.standalone import standalone_config
from cordwood.config.errors import ConfigError
from cordwood.config.layers import Layer
from cordwood.node import CannotStart, Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.local_disk import LocalDisk
from cordwood.runtime.network import NetworkError
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

# What keeps a node from starting that is not our bug.
START_ERRORS = (ConfigError, CannotStart, TlsError, DiskError, NetworkError)

# Where a test wants something else than a cluster does: groups that come together and share out at once, timeouts that
# are noticed at once, and not after the seconds that spare a large cluster requests. docs/testing.md lists them.
TEST_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


async def start_node(settings: Mapping[str, str], data: str, port: int, stopped: asyncio.Event | None = None) -> Node:
    """On the running event loop. Raises `START_ERRORS`."""
    base = Layer("the defaults for tests", TEST_DEFAULTS | {"log.dirs": data})
    config = standalone_config(base, Layer("settings", settings), port=port)
    return await Node.start(
        config,
        network=SocketNetwork(),
        clock=SystemClock(),
        random=SeededRandom(),
        open_disk=LocalDisk,
        stopped=stopped,
    )
