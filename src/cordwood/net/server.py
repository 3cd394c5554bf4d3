"""The server: listeners, limits on connections and their idle time, and a graceful stop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.framing import Scratch
from cordwood.net.limits import Counts, Limits
from cordwood.net.serving import Handler, ServedConnection
from cordwood.runtime.network import Address, Connection, Listener, Network, SocketOptions
from cordwood.runtime.tls import ServerTls

_log = logging.getLogger(__name__)

# The number of idle checks per idle timeout.
_SWEEPS = 20
_SWEEP_MIN_S = 0.01


class Server:
    """Any number of listeners whose connections one handler serves, under common limits.

    server = Server(network, handler, Limits(max_connections=1000))
    address = await server.listen("PLAINTEXT", "", 9092)
    …
    await server.stop(grace_seconds=5)
    """

    def __init__(self, network: Network, handler: Handler | None = None, limits: Limits | None = None) -> None:
        self.counts = Counts()
        self._network = network
        # None until `accept`, for a server that listens before there is anything to serve.
        self._handler = handler
        self._limits = limits if limits is not None else Limits()
        self._loop = asyncio.get_running_loop()
        # From the first connection on.
        self._scratch: Scratch | None = None
        self._listeners: list[tuple[str, Listener]] = []
        self._connections: dict[int, ServedConnection] = {}
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._number = 0
        # Listeners without new peers for now: there are too many.
        self._full: set[Listener] = set()
        # False until `accept`, after `hold`.
        self._accepting = True
        self._stopping = False
        self._all_gone: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def listen(
        self, name: str, host: str, port: int, tls: ServerTls | None = None, options: SocketOptions | None = None
    ) -> Address:
        """Raises `CannotListen`. `name` is the name of the listener that handlers see."""
        listener = await self._network.listen(
            host, port, lambda connection: self._welcome(connection, name), tls, options
        )
        self._listeners.append((name, listener))
        if not self._accepting:
            listener.pause()
        self._check_full()
        self._schedule_sweep()
        return listener.address

    def hold(self) -> None:
        """Listens, but leaves connections in the listeners' queues until `accept`, while the node is starting."""
        self._accepting = False

    def accept(self, handler: Handler | None = None) -> None:
        """Ends `hold`. A handler that the server was not made with is given here."""
        self._handler = self._handler if handler is None else handler
        self._accepting = True
        for _, listener in self._listeners:
            if listener not in self._full:
                listener.resume()

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        """Limits on connections and idleness hold from now on; the others are those of new connections."""
        self._limits = limits
        self._check_full()
        self._schedule_sweep()

    def __len__(self) -> int:
        """Its connections."""
        return len(self._connections)

    def __iter__(self) -> Iterator[ServedConnection]:
        return iter(list(self._connections.values()))

    async def stop(self, grace_seconds: float) -> None:
        """Accepts no connections, starts no requests, and gives those in progress this long to complete; then
        closes."""
        self._stopping = True
        for _, listener in self._listeners:
            listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self:
            connection.finish()
        if self._connections:
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._all_gone.wait()
            except TimeoutError:
                _log.warning("%d connections had work after %g s and were cut", len(self), grace_seconds)
        for connection in self:
            connection.abort()
        # Coroutines created in this turn are started, to be cancelled: Python warns about those that are never awaited.
        await asyncio.sleep(0)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _welcome(self, connection: Connection, listener: str) -> None:
        host = connection.peer.host
        limits = self._limits
        allowed = limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
        if self._per_ip[host] >= allowed:
            # Kafka closes it without a word as well.
            self.counts.refused += 1
            _log.info("%s on %s: refused: its address has its %d connections", connection.peer, listener, allowed)
            connection.abort()
            return
        self.counts.accepted += 1
        self._per_ip[host] += 1
        self._per_listener[listener] += 1
        self._number += 1
        assert self._handler is not None, "connections are held until a handler is set"
        if self._scratch is None:
            self._scratch = Scratch()
        served = ServedConnection(
            connection,
            ConnectionInfo(connection, listener, self._number),
            self._handler,
            limits,
            self.counts,
            self._scratch,
            self._tasks,
            self._forget,
            self._loop,
        )
        self._connections[self._number] = served
        self._check_full()
        served.start()

    def _forget(self, served: ServedConnection) -> None:
        del self._connections[served.info.id]
        host = served.info.peer.host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        self._per_listener[served.info.listener] -= 1
        self._check_full()
        if self._stopping and not self._connections:
            self._all_gone.set()

    def _check_full(self) -> None:
        """At `max.connections` new peers wait in the listeners' queues, as they do at Kafka's."""
        if self._stopping:
            return
        limits = self._limits
        all_full = len(self._connections) >= limits.max_connections
        for name, listener in self._listeners:
            limit = limits.max_connections_of_listener.get(name)
            full = all_full or (limit is not None and self._per_listener[name] >= limit)
            if full == (listener in self._full):
                continue
            if full:
                self._full.add(listener)
                listener.pause()
                shown = limits.max_connections if all_full else limit
                _log.warning("%s: max.connections (%d) reached; new connections wait", name, shown)
            else:
                self._full.discard(listener)
                if self._accepting:
                    listener.resume()

    # ---- idleness

    def _schedule_sweep(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._limits.idle_ms >= 0 and not self._stopping:
            self._sweep = self._loop.call_later(
                max(_SWEEP_MIN_S, self._limits.idle_ms / 1000 / _SWEEPS), self._close_idle
            )

    def _close_idle(self) -> None:
        limit = self._loop.time() - self._limits.idle_ms / 1000
        for connection in self:
            if connection.active_at <= limit and connection.is_idle():
                self.counts.closed_idle += 1
                _log.info("%s: closed, idle for %d ms", connection.info, self._limits.idle_ms)
                connection.abort()
        self._schedule_sweep()
