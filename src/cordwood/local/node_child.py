"""A node as a child of the supervisor: it runs until SIGTERM, or until the supervisor is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from cordwood.broker.start.consent import StartConsent
from cordwood.broker.start.standalone import node_config
from cordwood.config.errors import BadConfiguration, ConfigError
from cordwood.config.layers import Layer
from cordwood.net.measures import Measures
from cordwood.node import CannotStart, Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.event_loop import run
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import NetworkError
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

from .supervisor import STOP_TIMEOUT_S, Report


class Watcher(Protocol):
    """Shows the node's metrics."""

    @property
    def measures(self) -> Measures: ...

    def show(self, node: Node) -> None: ...


def run_node(
    layers: Sequence[Layer],
    consent: StartConsent,
    report: Report,
    supervisor: int,
    watch: Callable[[], Awaitable[Watcher]] | None = None,
) -> int:
    """`supervisor` can be read when that is gone; `watch` makes what measures the node."""
    try:
        return run(_serve(layers, consent, report, supervisor, watch))
    except BadConfiguration as error:
        report({"error": "\n".join(error.problems)})
    except (ConfigError, CannotStart, TlsError, DiskError, NetworkError) as error:
        report({"error": str(error)})
    return 2


async def _serve(
    layers: Sequence[Layer],
    consent: StartConsent,
    report: Report,
    supervisor: int,
    watch: Callable[[], Awaitable[Watcher]] | None,
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)

    def orphaned() -> None:
        loop.remove_reader(supervisor)
        # No supervisor is left to kill it if it did not stop.
        signal.alarm(int(STOP_TIMEOUT_S))
        stopped.set()

    loop.add_reader(supervisor, orphaned)
    watcher = None if watch is None else await watch()
    starting = loop.create_task(
        Node.start(
            node_config(*layers),
            network=SocketNetwork(),
            clock=SystemClock(),
            random=SeededRandom(),
            open_disk=LocalDisk,
            consent=consent,
            stopped=stopped,
            measures=None if watcher is None else watcher.measures,
        )
    )
    stopping = loop.create_task(stopped.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # It waits for the other nodes, which do not come.
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            return 0
    node = await starting
    if watcher is not None:
        watcher.show(node)
    report({"bootstrap": node.bootstrap})
    await stopping
    await node.stop()
    return 0 if node.failure is None else 1
