"""The network: what holds of real sockets and simulated ones alike, and then what only a simulated one does to you."""

import asyncio
import random
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.limits import Limits
from cordwood.net.peers.channel import Channel
from cordwood.net.server import Server
from cordwood.net.serving import Answer, Reply
from cordwood.runtime.disk import Disk, FileRange
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import (
    Address,
    CannotConnect,
    CannotListen,
    Connection,
    ConnectionLost,
    Network,
    NetworkError,
    SocketOptions,
)
from cordwood.runtime.sockets import SocketNetwork
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World

SMALL_BUFFERS = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)
QUIET = NetworkOdds(slow=0.0, split=0.0)
PATIENCE_S = 60.0

# Runs a test that is given the server's network, the client's, and a disk.
Run = Callable[[Callable[[Network, Network, Disk], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["sockets", *(f"seed {seed}" for seed in range(20))])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    def on_sockets(test: Callable[[Network, Network, Disk], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(SocketNetwork(), SocketNetwork(), LocalDisk(str(tmp_path)))
            while Ear.open:
                Ear.open.pop().connection.abort()

        asyncio.run(main())

    def in_a_world(test: Callable[[Network, Network, Disk], Coroutine[Any, Any, None]]) -> None:
        seed = int(request.param.split()[1])
        world = World(seed, odds=NetworkOdds(split=0.5, slow=0.2), limit_s=3600)
        network = world.network
        world.run(test(network.host("localhost"), network.host("client"), SimDisk(random.Random(seed))))

    return on_sockets if request.param == "sockets" else in_a_world


class Ear:
    """A Receiver that records its calls."""

    # Resources that a test on real sockets must close.
    open: ClassVar[list["Ear"]] = []

    def __init__(self, connection: Connection, buffer_bytes: int = 1 << 16) -> None:
        self.connection = connection
        self.data = bytearray()
        self.was_lost: list[ConnectionLost | None] = []
        self.times_sent = 0
        self._buffer = bytearray(buffer_bytes)
        self._changed = asyncio.Event()
        self.open.append(self)

    def buffer(self) -> bytearray:
        return self._buffer

    def received(self, count: int) -> None:
        assert count > 0
        assert not self.was_lost
        self.data += self._buffer[:count]
        self._changed.set()

    def sent(self) -> None:
        self.times_sent += 1
        self._changed.set()

    def lost(self, error: ConnectionLost | None) -> None:
        self.was_lost.append(error)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()
            self._changed.clear()

    async def receive(self, size: int) -> bytes:
        await self.until(lambda: len(self.data) >= size)
        taken, self.data = self.data[:size], self.data[size:]
        return bytes(taken)


async def pair(
    at_server: Network,
    at_client: Network,
    options: SocketOptions | None = None,
    server_options: SocketOptions | None = None,
) -> tuple[Ear, Ear]:
    accepted: asyncio.Queue[Ear] = asyncio.Queue()

    def accept(connection: Connection) -> None:
        ear = Ear(connection)
        connection.start(ear)
        accepted.put_nowait(ear)

    listener = await at_server.listen("localhost", 0, accept, None, server_options)
    client = Ear(await at_client.connect("localhost", listener.address.port, None, options))
    client.connection.start(client)
    server = await accepted.get()
    listener.close()
    return client, server


# ---- what holds of both


def test_bytes_arrive_whole_and_in_order_both_ways(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        client, server = await pair(at_server, at_client)
        there = random.Random(1).randbytes(300_000)
        back = random.Random(2).randbytes(300_000)
        for at in range(0, 300_000, 10_000):
            client.connection.send([there[at : at + 1], there[at + 1 : at + 10_000]])
            server.connection.send([memoryview(back)[at : at + 10_000]])
        assert await server.receive(300_000) == there
        assert await client.receive(300_000) == back
        assert client.connection.unsent_bytes == server.connection.unsent_bytes == 0
        assert client.connection.local == server.connection.peer

    run(main)


def test_a_range_of_a_file_is_sent_between_bytes(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        content = random.Random(3).randbytes(200_000)
        file = disk.create("segment")
        file.append(content)
        client, server = await pair(at_server, at_client)
        server.connection.send([b"before", FileRange(file, 1_000, 150_000), b"after"])
        assert await client.receive(150_011) == b"before" + content[1_000:151_000] + b"after"

    run(main)


def test_a_file_that_ends_early_ends_the_connection_and_not_within_send(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        file = disk.create("segment")
        file.append(b"short")
        client, server = await pair(at_server, at_client)
        server.connection.send([FileRange(file, 0, 100)])
        assert server.was_lost == []
        await server.until(lambda: bool(server.was_lost))
        assert isinstance(server.was_lost[0], ConnectionLost)
        await client.until(lambda: bool(client.was_lost))

    run(main)


def test_a_slow_reader_makes_the_sender_buffer_and_signals_when_it_drains(run: Run) -> None:
    size = 8_000_000

    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        client, server = await pair(at_server, at_client, SMALL_BUFFERS, SMALL_BUFFERS)
        client.connection.pause_reading()
        server.connection.send([bytes(size)])
        unsent = server.connection.unsent_bytes
        assert unsent > 0
        for _ in range(20):
            await asyncio.sleep(0)
        assert client.data == b""
        client.connection.resume_reading()
        assert client.data == b"", "never within the call"
        await client.receive(size)
        await server.until(lambda: server.connection.unsent_bytes == 0)
        assert server.times_sent > 0

    run(main)


def test_close_sends_unsent_bytes_first(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        client, server = await pair(at_server, at_client, SMALL_BUFFERS, SMALL_BUFFERS)
        server.connection.send([bytes(1_000_000)])
        server.connection.close()
        server.connection.send([b"too late"])
        await client.until(lambda: bool(client.was_lost))
        assert len(client.data) == 1_000_000
        assert client.was_lost == [None]
        assert server.was_lost == [None]

    run(main)


def test_an_abort_is_reported_before_it_returns_and_to_the_other_side(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        client, server = await pair(at_server, at_client)
        client.connection.abort()
        assert client.was_lost == [None]
        client.connection.abort()
        client.connection.close()
        client.connection.send([b"nothing"])
        assert client.was_lost == [None]
        await server.until(lambda: bool(server.was_lost))
        assert len(server.was_lost) == 1

    run(main)


def test_a_paused_listener_accepts_queued_connections_later(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        accepted: list[Ear] = []

        def accept(connection: Connection) -> None:
            accepted.append(Ear(connection))
            connection.start(accepted[-1])

        listener = await at_server.listen("localhost", 0, accept)
        listener.pause()
        client = Ear(await at_client.connect("localhost", listener.address.port))
        client.connection.start(client)
        client.connection.send([b"hello"])
        for _ in range(20):
            await asyncio.sleep(0)
        assert accepted == []
        listener.resume()
        while not accepted:
            await asyncio.sleep(0.001)
        assert await accepted[0].receive(5) == b"hello"
        listener.close()
        client.connection.abort()
        accepted[0].connection.abort()

    run(main)


def test_a_taken_port_and_an_absent_broker_are_named(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        listener = await at_server.listen("localhost", 0, lambda connection: connection.abort())
        port = listener.address.port
        with pytest.raises(CannotListen, match=rf"cannot listen on localhost:{port}: Address already in use"):
            await at_server.listen("localhost", port, lambda connection: connection.abort())
        listener.close()
        with pytest.raises(CannotConnect, match=rf"cannot connect to localhost:{port}: .*refused"):
            await at_client.connect("localhost", port)

    run(main)


def test_responses_keep_the_order_of_the_requests_and_reading_stops_while_many_are_in_work(run: Run) -> None:
    async def main(at_server: Network, at_client: Network, disk: Disk) -> None:
        parked: list[tuple[bytes, Reply]] = []

        def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
            parked.append((bytes(request), Reply()))
            return parked[-1][1]

        server = Server(at_server, handler, Limits(max_requests_in_work=10))
        address = await server.listen("TEST", "localhost", 0)
        channel = await Channel.open(at_client, "localhost", address.port)
        requests = [
            asyncio.ensure_future(channel.exchange([struct.pack(">ii", 4, number)], number)) for number in range(100)
        ]
        answered = 0
        while answered < 100:
            while not parked:
                await asyncio.sleep(0.001)
            assert len(parked) <= 10
            for content, reply in reversed(parked):
                reply.answer([struct.pack(">i", 4) + content])
                answered += 1
            parked.clear()
        responses = await asyncio.gather(*requests)
        assert [struct.unpack(">i", response)[0] for response in responses] == list(range(100))
        channel.close()
        await server.stop(grace_seconds=1)

    run(main)


# ---- what a simulated one does to you


def test_the_same_seed_delivers_the_same_pieces_and_another_seed_others() -> None:
    def trace_of(seed: int) -> str:
        world = World(seed, odds=NetworkOdds(split=0.5, loss=0.01))

        async def main() -> None:
            client, _ = await pair(world.network.host("localhost"), world.network.host("client"))
            for _ in range(50):
                client.connection.send([b"x" * 1000])
                await asyncio.sleep(0.01)

        world.run(main())
        return world.trace.digest

    assert len({trace_of(seed) for seed in range(10)}) == 10
    assert trace_of(3) == trace_of(3)


def test_a_lost_connection_delivers_any_prefix_and_both_sides_notice() -> None:
    outcomes = set()
    for seed in range(60):
        world = World(seed, odds=NetworkOdds(loss=0.2))

        async def main(world: World = world) -> tuple[int, int]:
            client, server = await pair(world.network.host("localhost"), world.network.host("client"))
            for _ in range(100):
                client.connection.send([bytes(100)])
                server.connection.send([bytes(100)])
                await asyncio.sleep(0.001)
            await client.until(lambda: bool(client.was_lost))
            await server.until(lambda: bool(server.was_lost))
            assert [type(error) for error in client.was_lost] == [ConnectionLost]
            return len(server.data), len(client.data)

        there, back = world.run(main())
        outcomes.add("part" if there % 100 else "whole")
        outcomes.add("more there" if there > back else "more back")
    assert outcomes == {"part", "whole", "more there", "more back"}


def test_nothing_passes_while_a_host_is_cut_off_and_all_of_it_afterwards() -> None:
    world = World(1, odds=QUIET)
    network = world.network

    async def main() -> None:
        client, server = await pair(network.host("localhost"), network.host("client"))
        network.cut("client")
        client.connection.send([b"one"])
        server.connection.send([b"two"])
        late = asyncio.ensure_future(pair(network.host("localhost"), network.host("client")))
        await asyncio.sleep(100)
        assert not client.data
        assert not server.data
        assert not late.done()
        network.heal("client")
        client.connection.send([b" three"])
        assert await server.receive(9) == b"one three"
        assert await client.receive(3) == b"two"
        await late

    world.run(main())


def test_peers_of_a_killed_process_lose_their_connections_and_its_port_is_free() -> None:
    for seed in range(20):
        world = World(seed)

        async def main(world: World = world) -> None:
            broker = world.process("broker")
            served: list[int] = []

            def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
                served.append(1)
                return [struct.pack(">i", len(request)), request]

            async def serve() -> None:
                server = Server(world.network.host("broker"), handler)
                await server.listen("TEST", "", 9092)
                await asyncio.Event().wait()

            broker.start(serve())
            await asyncio.sleep(1)
            channel = await Channel.open(world.network.host("client"), "broker", 9092)
            await channel.exchange([struct.pack(">ii", 4, 0)], 0)
            pending = asyncio.ensure_future(channel.exchange([struct.pack(">ii", 4, 1)], 1))
            await asyncio.sleep(0)
            broker.kill()
            before = len(served)
            with pytest.raises(CannotConnect, match="refused"):
                await Channel.open(world.network.host("client"), "broker", 9092)
            with pytest.raises(NetworkError):
                await pending
            await asyncio.sleep(10)
            assert channel.lost_error is not None
            assert len(served) == before
            listener = await world.network.host("broker").listen("", 9092, lambda connection: connection.abort())
            assert listener.address == Address("::", 9092)

        world.run(main())


def test_a_sender_cannot_tell_whether_a_lost_connection_lost_the_request_or_the_response() -> None:
    seen = set()
    for seed in range(80):
        world = World(seed, odds=NetworkOdds(loss=0.3))

        async def main(world: World = world) -> str:
            served: list[int] = []

            def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
                served.append(1)
                return [struct.pack(">i", len(request)), request]

            server = Server(world.network.host("broker"), handler)
            await server.listen("TEST", "", 9092)
            channel = await Channel.open(world.network.host("client"), "broker", 9092)
            answered = False
            with suppress(NetworkError):
                await channel.exchange([struct.pack(">ii", 4, 0)], 0)
                answered = True
            await asyncio.sleep(10)
            return f"{'served' if served else 'not served'}, {'answered' if answered else 'lost'}"

        seen.add(world.run(main()))
    assert seen == {"served, answered", "served, lost", "not served, lost"}


def test_unknown_hosts_and_tls_are_refused() -> None:
    world = World(0)

    async def main() -> None:
        host = world.network.host("client")
        with pytest.raises(CannotConnect, match="cannot connect to nowhere:9092: Name or service not known"):
            await host.connect("nowhere", 9092)
        with pytest.raises(CannotListen, match="Cannot assign requested address"):
            await host.listen("nowhere", 9092, lambda connection: connection.abort())
        tls: Any = object()
        with pytest.raises(NotImplementedError, match="no TLS"):
            await host.connect("client", 9092, tls)

    world.run(main())
