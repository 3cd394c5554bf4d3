"""Helpers of the network tests: both event loops, a temporary server, a client of plain bytes."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import uvloop

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.limits import Limits
from cordwood.net.server import Server
from cordwood.net.serving import Answer, Handler
from cordwood.runtime.network import Address, SocketOptions
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ServerTls

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
# Far more than anything here takes: a test that waits for what never comes fails instead of hanging.
PATIENCE_S = 60.0


def run_on(loop: str, main: Coroutine[Any, Any, T]) -> T:
    async def patiently() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(patiently())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def echo(request: bytearray, connection: ConnectionInfo) -> Answer:
    return [struct.pack(">i", len(request)), request]


@asynccontextmanager
async def serving(
    handler: Handler,
    limits: Limits | None = None,
    *,
    host: str = "127.0.0.1",
    tls: ServerTls | None = None,
    options: SocketOptions | None = None,
) -> AsyncIterator[tuple[Server, Address]]:
    server = Server(SocketNetwork(), handler, limits)
    address = await server.listen("TEST", host, 0, tls, options)
    try:
        yield server, address
    finally:
        await server.stop(grace_seconds=0)


class Client:
    """Plain bytes over a non-blocking socket, which reads only on request."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def receive(self, size: int) -> bytes:
        """So many bytes, or fewer if the connection ends first."""
        data = bytearray()
        while len(data) < size:
            try:
                more = await self._loop.sock_recv(self._sock, min(size - len(data), 1 << 20))
            except ConnectionResetError:
                break
            if not more:
                break
            data += more
        return bytes(data)

    async def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.receive(4))
        return await self.receive(size)

    async def is_closed(self) -> bool:
        """Returns once the other side has closed; False if it sent something instead."""
        return not await self.receive(1)

    def close(self) -> None:
        self._sock.close()


@asynccontextmanager
async def client_of(address: Address, receive_buffer_bytes: int = -1) -> AsyncIterator[Client]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setblocking(False)
        if receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        await asyncio.get_running_loop().sock_connect(sock, (address.host, address.port))
        yield Client(sock)
