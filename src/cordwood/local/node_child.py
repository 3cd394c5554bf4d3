"""A node as a child of the supervisor: it runs until SIGTERM, or until the supervisor exits."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

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
from cordwood.runtime.memory import (
    collect_garbage_rarely,
    give_free_memory_back,
    give_large_blocks_back,
    keep_present_objects,
)
from cordwood.runtime.network import NetworkError
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

from .supervisor import STOP_TIMEOUT_S, STOP_TOGETHER, Report

T = TypeVar("T")


class Watcher(Protocol):
    """Shows the node's metrics."""

    @property
    def measures(self) -> Measures: ...

    def show(self, node: Node) -> None: ...


class Companion(Protocol):
    """Serves clients beside the node, as a schema registry does."""

    @property
    def url(self) -> str: ...

    async def stop(self) -> None: ...


def run_node(
    layers: Sequence[Layer],
    consent: StartConsent,
    report: Report,
    supervisor: int,
    watch: Callable[[], Awaitable[Watcher]] | None = None,
    accompany: Callable[[Node], Awaitable[Sequence[Companion]]] | None = None,
) -> int:
    """`supervisor` becomes readable when the supervisor exits; `watch` creates the node's metrics; `accompany` starts
    what serves clients beside it."""
    give_large_blocks_back()
    collect_garbage_rarely()
    try:
        return run(_serve(layers, consent, report, supervisor, watch, accompany))
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
    accompany: Callable[[Node], Awaitable[Sequence[Companion]]] | None,
) -> int:
    stopped = asyncio.Event()
    hands_over = True
    loop = asyncio.get_running_loop()

    def stop_together() -> None:
        nonlocal hands_over
        hands_over = False
        stopped.set()

    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(STOP_TOGETHER, stop_together)

    def orphaned() -> None:
        loop.remove_reader(supervisor)
        # No supervisor is left to kill it if it did not stop.
        signal.alarm(int(STOP_TIMEOUT_S))
        stop_together()

    loop.add_reader(supervisor, orphaned)
    watcher = None if watch is None else await watch()
    node = await _start_unless(
        stopped,
        Node.start(
            node_config(*layers),
            network=SocketNetwork(),
            clock=SystemClock(),
            random=SeededRandom(),
            open_disk=LocalDisk,
            consent=consent,
            measures=None if watcher is None else watcher.measures,
        ),
    )
    if node is None:
        return 0
    if watcher is not None:
        watcher.show(node)
    companions: Sequence[Companion] | None = ()
    try:
        if accompany is not None:
            companions = await _start_unless(stopped, accompany(node))
        if companions is not None:
            keep_present_objects()
            give_free_memory_back()
            report({"bootstrap": node.bootstrap, "companions": [companion.url for companion in companions]})
            await _either(stopped, node.stopped)
    finally:
        for companion in companions or ():
            await companion.stop()
        await node.stop(hands_over=hands_over)
    return 0 if node.failure is None else 1


async def _start_unless(asked_to_stop: asyncio.Event, starting: Awaitable[T]) -> T | None:
    """Awaits a start; None if the node was asked to stop in the meantime: it may be waiting for nodes that never come.
    Raises the error if the start fails."""
    loop = asyncio.get_running_loop()
    start, stop = asyncio.ensure_future(starting), loop.create_task(asked_to_stop.wait())
    await asyncio.wait([start, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        await asyncio.wait([start])
        if start.cancelled():
            return None
    return await start


async def _either(first: asyncio.Event, second: asyncio.Event) -> None:
    """Returns when one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
