"""The simulated Network: hosts with names, listeners on them, connections between them, and faults.

    network = SimNetwork(loop, random.Random(seed), trace)
    port = network.host("broker")          # the Network port as a program on that host has it
    network.cut("broker")                  # nothing gets to or from it until `heal`
    network.block("one", "two")            # nothing gets from one to the other until `unblock`
    network.lose_connections("broker")

A process that is killed takes its listeners and connections with it: its peers notice that like any loss.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable

from cordwood.runtime.network import Address, CannotConnect, CannotListen, Connection, ListenProblem, SocketOptions
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.sim.trace import Trace

from .connection import NetworkOdds, SimConnection
from .loop import SimLoop
from .process import Process, process_of

_FIRST_EPHEMERAL_PORT = 32_768
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY = ("", "0.0.0.0", "::")


class SimNetwork:
    def __init__(self, loop: SimLoop, source: random.Random, trace: Trace, odds: NetworkOdds | None = None) -> None:
        self.loop = loop
        self.source = source
        self.trace = trace
        self.odds = odds if odds is not None else NetworkOdds()
        self._hosts: dict[str, SimHost] = {}
        self._connections: list[SimConnection] = []
        # From one address to another; with a port, only on connections to that one.
        self._blocked: set[tuple[str, str, int | None]] = set()
        self._healed = asyncio.Event()

    def host(self, name: str) -> "SimHost":
        if name not in self._hosts:
            address = f"10.0.0.{len(self._hosts) + 1}"
            self._hosts[name] = self._hosts[address] = SimHost(self, name, address)
        return self._hosts[name]

    def cut(self, name: str) -> None:
        self.trace.note("cut", name)
        self._hosts[name].is_cut = True

    def heal(self, name: str) -> None:
        self.trace.note("heal", name)
        self._hosts[name].is_cut = False
        self._release()

    def block(self, source: str, target: str, port: int | None = None) -> None:
        """Blocks one direction; with `port`, only connections to that listener."""
        self.trace.note("block", source, target, port)
        self._blocked.add((self.host(source).address, self.host(target).address, port))

    def unblock(self, source: str | None = None) -> None:
        """Removes all blocks, or only those of one host's outgoing data."""
        address = None if source is None else self.host(source).address
        unblocked = {way for way in self._blocked if address in (None, way[0])}
        if unblocked:
            self.trace.note("unblock", source)
            self._blocked -= unblocked
            self._release()

    def _release(self) -> None:
        for connection in self._open_connections():
            connection.release_held()
        self._healed.set()
        self._healed = asyncio.Event()

    def lose_connections(self, name: str) -> None:
        """All that the host has now."""
        address = self._hosts[name].address
        for connection in self._open_connections():
            if connection.local.host == address:
                connection.lose()

    def blocks(self, source: Address, target: Address) -> bool:
        """Returns whether nothing gets from one to the other for now."""
        if source.host == target.host:
            return False
        if self._hosts[source.host].is_cut or self._hosts[target.host].is_cut:
            return True
        return bool(self._blocked) and any(
            (source.host, target.host, port) in self._blocked for port in (None, source.port, target.port)
        )

    # ---- called by hosts

    def find(self, name: str, asking: "SimHost") -> "SimHost | None":
        return self._hosts.get(name, asking if name in _LOOPBACK else None)

    async def until_joined(self, one: Address, other: Address) -> None:
        while self.blocks(one, other) or self.blocks(other, one):
            await self._healed.wait()

    def delay_s(self) -> float:
        return self.source.random() * self.odds.delay_s

    def join(self, client: SimConnection, server: SimConnection) -> None:
        client.other, server.other = server, client
        for connection in (client, server):
            self._connections.append(connection)
            if connection.process is not None:
                connection.process.when_killed(connection.die)

    def _open_connections(self) -> list[SimConnection]:
        self._connections = [connection for connection in self._connections if not connection.closed]
        return self._connections


class SimHost:
    """A machine in the network: the `Network` of its programs."""

    def __init__(self, network: SimNetwork, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_cut = False
        self._network = network
        self._listeners: dict[int, SimListener] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    async def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Connection], None],
        tls: ServerTls | None = None,
        options: SocketOptions | None = None,
    ) -> "SimListener":
        _refuse_tls(tls)
        if host not in (*_ANY, *_LOOPBACK, self.name, self.address):
            raise CannotListen(host, port, "Cannot assign requested address", ListenProblem.ADDRESS_NOT_LOCAL)
        port = port or self._take_port()
        if port in self._listeners:
            raise CannotListen(host, port, "Address already in use", ListenProblem.PORT_TAKEN)
        listener = SimListener(self, Address(host or "::", port), accept, options)
        self._listeners[port] = listener
        process = process_of()
        if process is not None:
            process.when_killed(listener.close)
        return listener

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> SimConnection:
        _refuse_tls(tls)
        network = self._network
        target = network.find(host, self)
        if target is None:
            raise CannotConnect(host, port, "Name or service not known")
        local, peer = Address(self.address, self._take_port()), Address(target.address, port)
        await asyncio.sleep(network.delay_s())
        await network.until_joined(local, peer)
        listener = target._listeners.get(port)
        if listener is None:
            await asyncio.sleep(network.delay_s())
            raise CannotConnect(host, port, "Connection refused", is_refused=True)
        network.trace.note("connect", str(local), str(peer))
        connection = self._endpoint(local, peer, process_of(), contextvars.copy_context(), options)
        network.join(connection, listener.endpoint(peer, local))
        listener.welcome(connection.other)
        try:
            await asyncio.sleep(network.delay_s())
            await network.until_joined(local, peer)
        except BaseException:
            connection.abort()
            raise
        return connection

    def forget(self, listener: "SimListener") -> None:
        self._listeners.pop(listener.address.port, None)

    def _endpoint(
        self,
        local: Address,
        peer: Address,
        process: Process | None,
        context: contextvars.Context,
        options: SocketOptions | None,
    ) -> SimConnection:
        window_bytes = options.send_buffer_bytes if options is not None else -1
        if window_bytes < 0:
            window_bytes = self._network.odds.window_bytes
        return SimConnection(self._network, local, peer, process, context, window_bytes)

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port


class SimListener:
    """See `Listener`."""

    def __init__(
        self, host: SimHost, address: Address, accept: Callable[[Connection], None], options: SocketOptions | None
    ) -> None:
        self.address = address
        self._host = host
        self._accept = accept
        self._options = options
        self._process = process_of()
        self._context = contextvars.copy_context()
        self._is_paused = False
        self._waiting: list[SimConnection] = []

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._waiting:
            self._host._network.loop.call_soon(self._accept_waiting, context=self._context)

    def close(self) -> None:
        self._host.forget(self)
        for connection in self._waiting:
            connection.lose()
        self._waiting.clear()

    def endpoint(self, local: Address, peer: Address) -> SimConnection:
        return self._host._endpoint(local, peer, self._process, self._context, self._options)

    def welcome(self, connection: SimConnection) -> None:
        self._waiting.append(connection)
        if not self._is_paused:
            self.resume()

    def _accept_waiting(self) -> None:
        while self._waiting and not self._is_paused:
            self._accept(self._waiting.pop(0))


def _refuse_tls(tls: object) -> None:
    if tls is not None:
        raise NotImplementedError("the simulated network has no TLS: its keys would make each run another one")
