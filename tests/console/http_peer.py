"""An HTTP peer that sends the bytes it is told to, and keeps what it hears; and a world for it to live in."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cordwood.console.http_server import HttpServer, Page, PageMaker
from cordwood.runtime.network import Address, Connection, ConnectionLost, Network
from cordwood.sim.connection import NetworkOdds
from cordwood.sim.world import World


class Peer:
    """A `Receiver`."""

    connection: Connection

    def __init__(self) -> None:
        self.heard = bytearray()
        self.is_lost = False
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

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next one: status, fields, body."""
        await self.until(lambda peer: b"\r\n\r\n" in peer.heard)
        head, _, rest = bytes(self.heard).partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        size = int(fields["Content-Length"])
        await self.until(lambda peer: len(peer.heard) >= len(head) + 4 + size)
        rest = bytes(self.heard[len(head) + 4 :])
        self.heard = bytearray(rest[size:])
        return int(first.split(" ")[1]), fields, rest[:size]


async def hello(path: str, query: str) -> Page:
    return Page(f"hello {path} {query}".encode())


def in_worlds(
    test: Callable[[HttpServer, Callable[[], Coroutine[Any, Any, Peer]]], Coroutine[Any, Any, None]],
    make_page: PageMaker = hello,
    seeds: range = range(5),
) -> None:
    """Runs a test, given a server and how to connect to it, over simulated networks that cut and delay."""
    for seed in seeds:
        world = World(seed, odds=NetworkOdds(split=0.5, slow=0.2), limit_s=3600)

        async def main(world: World = world) -> None:
            server = await HttpServer.listen(world.network.host("localhost"), "localhost", 80, make_page)
            client = world.network.host("client")
            await test(server, lambda: Peer.connect(client, server.address))
            server.stop()

        world.run(main())
