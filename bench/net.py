"""Cost of the network: small requests per second through the server, bytes per second of ranges and of buffers.

The server runs in a separate process; its processor time is measured, so the client's cost does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.server import Server
from cordwood.net.serving import Answer, Handler, Reply
from cordwood.runtime.disk import FileRange
from cordwood.runtime.event_loop import loop_factory
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Part
from cordwood.runtime.sockets import SocketNetwork

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if loop_factory() is not asyncio.new_event_loop:
    LOOPS["uvloop"] = loop_factory()

# A Produce request of one 100-byte record and its response are about this long.
REQUEST = struct.pack(">i", 240) + bytes(240)
RESPONSE = struct.pack(">i", 60) + bytes(60)
REQUESTS = 200_000
WINDOWS = (1, 5, 200)
RANGE_BYTES = 64 << 20
RANGES = 20


def main() -> None:
    for loop in LOOPS:
        for kind in ("at once", "reply", "coroutine"):
            for window in WINDOWS:
                requests = min(REQUESTS, 20_000 * window)
                elapsed_s, cpu_s = measure(loop, kind, partial(small_requests, requests, window))
                print(
                    f"{loop:8} {kind:10} {window:>3} in flight {requests / elapsed_s:>8,.0f} requests/s "
                    f"{cpu_s * 1e6 / requests:7.2f} µs of server CPU each"
                )
        total_gb = RANGES * RANGE_BYTES / 1e9
        for kind in ("sendfile", "plain"):
            elapsed_s, cpu_s = measure(loop, kind, large_responses)
            print(f"{loop:8} {kind:10} {total_gb / elapsed_s:6.2f} GB/s {cpu_s / total_gb:7.2f} s of server CPU per GB")


def measure(loop: str, kind: str, drive: Callable[[int], None]) -> tuple[float, float]:
    """Seconds that it took, and of the server's processor time."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(loop, kind, theirs), daemon=True)
    process.start()
    port = ours.recv()
    started = time.perf_counter()
    drive(port)
    elapsed_s = time.perf_counter() - started
    ours.send(None)
    cpu_s: float = ours.recv()
    process.join()
    return elapsed_s, cpu_s


def small_requests(requests: int, window: int, port: int) -> None:
    """One client: `window` requests out, as many responses in."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        batch = REQUEST * window
        for _ in range(requests // window):
            client.sendall(batch)
            receive(client, len(RESPONSE) * window)


def large_responses(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        for _ in range(RANGES):
            client.sendall(REQUEST)
            receive(client, 4 + RANGE_BYTES)


INTO = bytearray(1 << 20)


def receive(client: socket.socket, size: int) -> None:
    while size:
        size -= client.recv_into(INTO, min(size, len(INTO)))


def serve(loop: str, kind: str, pipe: Pipe) -> None:
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(_serve(kind, folder, pipe))


async def _serve(kind: str, folder: str, pipe: Pipe) -> None:
    server = Server(SocketNetwork(), handler_of(kind, folder))
    address = await server.listen("BENCH", "127.0.0.1", 0)
    before = cpu_s()
    pipe.send(address.port)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), stopped.set)
    await stopped.wait()
    asyncio.get_running_loop().remove_reader(pipe.fileno())
    pipe.send(cpu_s() - before)
    await server.stop(0)


def handler_of(kind: str, folder: str) -> Handler:
    loop = asyncio.get_running_loop()

    def at_once(frame: bytearray, connection: ConnectionInfo) -> Answer:
        return [RESPONSE]

    def answer(reply: Reply) -> None:
        reply.answer([RESPONSE])

    def later(frame: bytearray, connection: ConnectionInfo) -> Answer:
        reply = Reply()
        loop.call_soon(answer, reply)
        return reply

    async def coroutine(frame: bytearray, connection: ConnectionInfo) -> list[Part] | None:
        return [RESPONSE]

    if kind in ("sendfile", "plain"):
        file = LocalDisk(folder).create("range")
        content = bytes(RANGE_BYTES)
        file.append(content)
        start = struct.pack(">i", RANGE_BYTES)
        part = FileRange(file, 0, RANGE_BYTES)
        if kind == "sendfile":
            return lambda frame, connection: [start, part]
        return lambda frame, connection: [start, part.read()]
    handlers: dict[str, Handler] = {"at once": at_once, "reply": later, "coroutine": coroutine}
    return handlers[kind]


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
