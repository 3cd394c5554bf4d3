"""State that tasks share in a Spark process: one event loop thread, and outlets to clusters."""

import os
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import Any, TypeVar

from cordwood.client.blocking.portal import Portal
from cordwood.runtime.sockets import SocketNetwork
from cordwood.spark.sink.options import SinkOptions
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.transactions import NamePool, Scope
from cordwood.spark.watched_network import network_for

T = TypeVar("T")


class Process:
    """`this_process()` has it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._portal = Portal("the sink")
        self._outlets: dict[tuple[object, ...], Outlet] = {}
        self._names: dict[Scope, NamePool] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._portal.run(work)

    def outlet(self, options: SinkOptions, purpose: str) -> Outlet:
        """The same for the same purpose and cluster."""
        # Topics and schemas do not matter to connections.
        chosen = replace(options, topic=None, testing_at=None, typed=(), registry=None)
        key = purpose, *((name, str(value)) for name, value in asdict(chosen).items())
        outlet = self._outlets.get(key)
        if outlet is None:
            doing = "writing" if purpose == "write" else "committing"
            outlet = self._outlets[key] = Outlet(options, network=network_for(doing))
        return outlet

    def names(self, scope: Scope) -> NamePool:
        if scope not in self._names:
            # Those of a finished run are not used any more.
            self._names = {known: pool for known, pool in self._names.items() if known.query != scope.query}
            self._names[scope] = NamePool(scope.prefix)
        return self._names[scope]


_process: Process | None = None


def this_process() -> Process:
    """Not that of the process which this one was forked from."""
    global _process
    if _process is None or _process.pid != os.getpid():
        _process = Process()
    return _process


def check_cluster(options: SinkOptions) -> None:
    """Called where a write is planned. Raises the errors of `Outlet.check`."""

    async def check() -> None:
        outlet = Outlet(options, network=SocketNetwork())
        try:
            await outlet.check()
        finally:
            await outlet.close()

    this_process().run(check())
