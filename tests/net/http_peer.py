"""An HTTP peer that sends given bytes and reads answers with h11; and worlds for it to live in."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import h11

from cordwood.net.http.asgi import App, Receive, Scope, Send
from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.server import HttpServer
from cordwood.runtime.network import Address, Connection, ConnectionLost, Network
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """A `Receiver`."""

    connection: Connection

    def __init__(self) -> None:
        self.heard = bytearray()
        self.is_lost = False
        self.error: ConnectionLost | None = None
        self._buffer = bytearray(1 << 16)
        self._changed = asyncio.Event()

    @classmethod
    async def connect(cls, network: Network, address: Address) -> "Peer":
        peer = cls()
        peer.connection = await network.connect(address.host, address.port)
        peer.connection.start(peer)
        return peer

    def buffer(self) -> bytearray:
        return self._buffer

    def received(self, count: int) -> None:
        self.heard += self._buffer[:count]
        self._changed.set()

    def sent(self) -> None: ...

    def lost(self, error: ConnectionLost | None) -> None:
        self.is_lost = True
        self.error = error
        self._changed.set()

    def send(self, *data: bytes) -> None:
        self.connection.send(data)

    async def until(self, condition: Callable[["Peer"], bool]) -> None:
        while not condition(self):
            assert not self.is_lost, f"the connection is gone: {bytes(self.heard)!r}"
            self._changed.clear()
            await self._changed.wait()

    async def until_lost(self) -> None:
        while not self.is_lost:
            self._changed.clear()
            await self._changed.wait()

    async def answer(self, method: str = "GET") -> Answer:
        """The next one; `100 Continue` counts as one."""
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method=method, target="/", headers=[("host", "x"), ("expect", "100-continue")]))
        status = 0
        headers: dict[str, str] = {}
        body = bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                await self.until(lambda peer: bool(peer.heard) or peer.is_lost)
                parser.receive_data(bytes(self.heard))
                self.heard.clear()
            elif isinstance(event, h11.Response | h11.InformationalResponse):
                status = event.status_code
                headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            if isinstance(event, h11.EndOfMessage | h11.InformationalResponse):
                self.heard = bytearray(parser.trailing_data[0]) + self.heard
                return Answer(status, headers, bytes(body))


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    body = f"hello {scope['path']} {scope['query_string'].decode()}".encode()
    await answer(send, body)


async def answer(send: Send, body: bytes, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, await read_body(receive))


Connect = Callable[[], Coroutine[Any, Any, Peer]]
HttpTest = Callable[[HttpServer, Connect], Coroutine[Any, Any, None]]


def in_worlds(
    test: HttpTest,
    app: App = hello,
    limits: HttpLimits | None = None,
    seeds: range = range(5),
    odds: NetworkOdds | None = None,
) -> None:
    """Runs a test, given a server and how to connect to it, over simulated networks that cut and delay."""
    for seed in seeds:
        world = World(seed, odds=odds or NetworkOdds(split=0.5, slow=0.2), limit_s=3600)

        async def main(world: World = world) -> None:
            server = HttpServer(world.network.host("localhost"), world.clock, limits)
            address = await server.serve(app, "localhost", 80)
            client = world.network.host("client")
            await test(server, lambda: Peer.connect(client, address))
            await server.stop(grace_seconds=0)
            assert len(server) == 0

        world.run(main())
