"""The HTTP server: any number of listeners, each with an ASGI app, under common limits, and a stop that finishes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime

from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Address, Connection, Listener, Network, SocketOptions
from cordwood.runtime.tls import ServerTls

from .asgi import App
from .connection import HttpConnection
from .limits import HttpLimits
from .protocol import Headers

_log = logging.getLogger(__name__)

_SCRATCH_BYTES = 1 << 16
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class HttpServer:
    def __init__(self, network: Network, clock: Clock, limits: HttpLimits | None = None) -> None:
        self._network = network
        self._clock = clock
        self._limits = limits if limits is not None else HttpLimits()
        # Bytes arrive here and are taken out at once, so that an idle connection owns no buffer.
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._listeners: list[Listener] = []
        self._connections: dict[HttpConnection, None] = {}
        self._is_full = False
        self._is_stopping = False
        self._all_gone = asyncio.Event()
        self._date = (-1, b"")

    async def serve(
        self, app: App, host: str, port: int, tls: ServerTls | None = None, options: SocketOptions | None = None
    ) -> Address:
        """Listens, and serves requests with `app`. Raises `CannotListen`."""
        scheme = "http" if tls is None else "https"
        listener = await self._network.listen(
            host, port, lambda connection: self._welcome(connection, app, scheme), tls, options
        )
        self._listeners.append(listener)
        if self._is_full:
            listener.pause()
        return listener.address

    def __len__(self) -> int:
        """Its connections."""
        return len(self._connections)

    async def stop(self, grace_seconds: float) -> None:
        """Accepts no connections and starts no requests, gives requests in flight this long to complete, then drops
        them.

        Streams of events end at once, since they have no end."""
        self._is_stopping = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self._all_gone.wait()
        if self._connections:
            _log.warning("Cutting %d HTTP connections that are busy after %g s", len(self), grace_seconds)
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _welcome(self, connection: Connection, app: App, scheme: str) -> None:
        served = HttpConnection(
            connection, app, scheme, self._limits, self._scratch, self._common_headers, self._forget
        )
        self._connections[served] = None
        self._check_full()
        served.start()

    def _forget(self, served: HttpConnection) -> None:
        del self._connections[served]
        self._check_full()
        if self._is_stopping and not self._connections:
            self._all_gone.set()

    def _check_full(self) -> None:
        is_full = len(self._connections) >= self._limits.max_connections
        if is_full is self._is_full or self._is_stopping:
            return
        self._is_full = is_full
        for listener in self._listeners:
            if is_full:
                listener.pause()
            else:
                listener.resume()
        if is_full:
            _log.warning("%d HTTP connections are open, the most allowed; new ones queue", len(self))

    def _common_headers(self) -> Headers:
        """RFC 9110, 6.6.1: a server with a clock says the time."""
        second = self._clock.now_ms() // 1000
        if second != self._date[0]:
            now = datetime.fromtimestamp(second, UTC)
            text = f"{_DAYS[now.weekday()]}, {now:%d} {_MONTHS[now.month - 1]} {now:%Y %H:%M:%S} GMT"
            self._date = (second, text.encode())
        return [(b"date", self._date[1])]
