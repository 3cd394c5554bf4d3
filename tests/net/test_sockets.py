"""Real sockets: parts and ranges that go out whole, addresses of both families, errors that say what happened."""

import asyncio
import os
import resource
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.server import Server
from cordwood.net.serving import Answer, Handler, ServedConnection
from cordwood.runtime.disk import FileRange
from cordwood.runtime.files.local_disk import LocalDisk, LocalFile
from cordwood.runtime.network import (
    Address,
    CannotConnect,
    CannotListen,
    Connection,
    ConnectionLost,
    Part,
    SocketOptions,
)
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.transport.bulk_buffers import BulkBuffers
from tests.net.net_support import Client, client_of, echo, frame, serving, until

Run = Callable[[Coroutine[Any, Any, None]], None]

SMALL_BUFFERS = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)
FILE_BYTES = 5_000_000


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    file = LocalDisk(str(tmp_path)).create("segment")
    file.append(os.urandom(FILE_BYTES))
    return file


def answering(*parts: Part) -> Handler:
    """Answers every request with these parts, after their size."""
    size = struct.pack(">i", sum(map(len, parts)))
    return lambda request, connection: [size, *parts]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_request_is_answered_over_both_families(run: Run, host: str) -> None:
    async def main() -> None:
        async with serving(echo, host=host) as (_, address), client_of(address) as client:
            assert address.host == host
            await client.send(frame(b"hello"))
            assert await client.receive_frame() == b"hello"

    run(main())


def test_no_host_means_every_address_of_both_families(run: Run) -> None:
    peers = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        peers.append(connection.peer.host)
        return echo(request, connection)

    async def main() -> None:
        async with serving(handler, host="") as (_, address):
            for host in ("127.0.0.1", "::1"):
                async with client_of(Address(host, address.port)) as client:
                    await client.send(frame(b"x"))
                    assert await client.receive_frame() == b"x"
        assert peers == ["127.0.0.1", "::1"]

    run(main())


def test_a_range_larger_than_the_socket_buffer_arrives_whole(run: Run, file: LocalFile) -> None:
    async def main() -> None:
        handler = answering(FileRange(file, 1_000, FILE_BYTES - 2_000))
        async with serving(handler, options=SMALL_BUFFERS) as (_, address), client_of(address, 16_384) as client:
            await client.send(frame(b"fetch"))
            assert await client.receive_frame() == file.read(1_000, FILE_BYTES - 2_000)

    run(main())


# Not more than systems allow anyone.
BEGINNING_BYTES, BULK_BYTES = 50_000, 200_000


def receive_buffer_bytes(served: ServedConnection) -> int:
    """Linux doubles the value, for its own needs."""
    sock: socket.socket = served._connection._sock  # type: ignore[attr-defined]
    size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return size // 2 if sys.platform == "linux" else size


def test_bulk_senders_get_a_larger_buffer(run: Run) -> None:
    options = SocketOptions(receive_buffer_bytes=BEGINNING_BYTES, bulk_receive_buffer_bytes=BULK_BYTES)

    async def main() -> None:
        async with serving(echo, options=options) as (server, address), client_of(address) as client:
            await client.send(frame(b"small"))
            assert await client.receive_frame() == b"small"
            (served,) = server
            assert receive_buffer_bytes(served) == BEGINNING_BYTES
            large = os.urandom(900_000)
            for _ in range(3):
                sending = asyncio.ensure_future(client.send(frame(large)))
                assert await client.receive_frame() == large
                await sending
            # It is said once, and holds for the connection.
            assert receive_buffer_bytes(served) == BULK_BYTES

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's tcp_info")
def test_the_tcp_window_allows_for_a_large_buffer_from_the_start(run: Run) -> None:
    """The factor of all sizes that follow is agreed on once, when they connect."""
    options = SocketOptions(receive_buffer_bytes=BEGINNING_BYTES, bulk_receive_buffer_bytes=BULK_BYTES)

    async def main() -> None:
        async with serving(echo, options=options) as (_, address):
            with socket.create_connection((address.host, address.port)) as peer:
                # The byte at 6 has both sides' factors, as powers of two: that of the listener in the lower half.
                shift = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 7)[6] & 15
        assert 65_535 << shift >= BULK_BYTES

    run(main())


def test_only_so_many_get_larger_buffers_at_a_time() -> None:
    buffers = BulkBuffers(BULK_BYTES, connections=2)
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        before = three.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert buffers.take(one)
        assert buffers.take(two)
        assert not buffers.take(three)
        assert three.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == before
        buffers.give_back()
        assert buffers.take(three)
        assert three.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) != before


def test_a_connection_that_ends_leaves_its_larger_buffer_to_the_next(run: Run) -> None:
    options = SocketOptions(receive_buffer_bytes=BEGINNING_BYTES, bulk_receive_buffer_bytes=BULK_BYTES)
    large = bytes(900_000)

    async def main() -> None:
        async with serving(echo, options=options) as (server, address):
            # More than there are at a time, one after another.
            for _ in range(40):
                async with client_of(address) as client:
                    sending = asyncio.ensure_future(client.send(frame(large)))
                    assert await client.receive_frame() == large
                    await sending
                    assert [receive_buffer_bytes(served) for served in server] == [BULK_BYTES]
                await until(lambda: len(server) == 0)

    run(main())


def test_buffers_and_ranges_go_out_in_their_order(run: Run, file: LocalFile) -> None:
    parts: list[Any] = [b"", b"start", FileRange(file, 0, 0), FileRange(file, 7, 700_000), bytearray(b"between")]
    parts += [FileRange(file, 3, 1), FileRange(file, 900_000, 900_000), memoryview(bytes(500_000)), b"end"]
    parts += [b"%d," % number for number in range(3_000)]
    expected = b"".join(part.read() if isinstance(part, FileRange) else bytes(part) for part in parts)

    async def main() -> None:
        async with (
            serving(answering(*parts), options=SMALL_BUFFERS) as (_, address),
            client_of(address, 16_384) as client,
        ):
            await client.send(frame(b"fetch") * 3)
            for _ in range(3):
                assert await client.receive_frame() == expected

    run(main())


def test_a_truncated_file_range_ends_the_connection_instead_of_hanging(run: Run, file: LocalFile) -> None:
    async def main() -> None:
        async with serving(answering(FileRange(file, 0, FILE_BYTES))) as (server, address):
            file.truncate(1_000)
            async with client_of(address) as client:
                await client.send(frame(b"fetch"))
                assert len(await client.receive(FILE_BYTES)) <= 4 + 1_000
            await until(lambda: len(server) == 0)

    run(main())


def test_a_peer_that_goes_away_while_it_is_sent_to_costs_its_connection_only(run: Run, file: LocalFile) -> None:
    async def main() -> None:
        async with serving(answering(FileRange(file, 0, FILE_BYTES)), options=SMALL_BUFFERS) as (server, address):
            async with client_of(address, 16_384) as client:
                await client.send(frame(b"fetch"))
                await client.receive(10)
            await until(lambda: len(server) == 0)
            async with client_of(address) as client:
                await client.send(frame(b"fetch"))
                assert (await client.receive(100_004))[4:] == file.read(0, 100_000)

    run(main())


def test_a_shortage_of_descriptors_is_waited_out(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def main() -> None:
        async with serving(echo) as (_, address):
            with socket.socket() as sock:
                lowest_free = os.dup(sock.fileno())
                os.close(lowest_free)
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
                try:
                    sock.connect((address.host, address.port))
                    await until(lambda: bool(caplog.messages))
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                sock.setblocking(False)
                client = Client(sock)
                await client.send(frame(b"patience"))
                assert await client.receive_frame() == b"patience"
            assert caplog.messages == [f"Cannot accept connections on {address}, retrying: Too many open files"]

    run(main())


@pytest.mark.parametrize(("length", "arrives"), [(10, b""), (1_000_000, struct.pack(">i", 1_000_000))])
def test_a_file_that_is_gone_ends_the_connection(run: Run, file: LocalFile, length: int, arrives: bytes) -> None:
    class Gone(LocalFile):
        def fileno(self) -> int:
            raise OSError("segment was deleted")

    async def main() -> None:
        gone = Gone(file.disk, file.path, file.size)
        async with serving(answering(FileRange(gone, 0, length))) as (_, address), client_of(address) as client:
            await client.send(frame(b"fetch"))
            assert await client.receive(100) == arrives

    run(main())


@pytest.mark.parametrize("length", [100, 1_000_000])
def test_a_range_past_the_end_of_its_file_ends_the_connection(run: Run, file: LocalFile, length: int) -> None:
    async def main() -> None:
        past = FileRange(file, file.size - 10, length)
        async with serving(answering(past)) as (_, address), client_of(address) as client:
            await client.send(frame(b"fetch"))
            assert len(await client.receive(length)) <= 4 + 10

    run(main())


def test_a_port_that_is_taken_is_named(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (_, address):
            with pytest.raises(
                CannotListen, match=rf"cannot listen on 127.0.0.1:{address.port}: Address already in use"
            ):
                await Server(SocketNetwork(), echo).listen("TEST", "127.0.0.1", address.port)

    run(main())


def test_a_missing_broker_is_named(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (_, address):
            pass
        with pytest.raises(CannotConnect, match=rf"cannot connect to 127.0.0.1:{address.port}: .*refused"):
            await SocketNetwork(asyncio.get_running_loop()).connect("127.0.0.1", address.port)

    run(main())


class Heard:
    """The events that a connection reports to its receiver."""

    def __init__(self) -> None:
        self.received_bytes = bytearray()
        self.endings: list[ConnectionLost | None] = []
        self._buffer = bytearray(4)

    def buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def received(self, count: int) -> None:
        self.received_bytes += self._buffer[:count]

    def sent(self) -> None: ...

    def lost(self, error: ConnectionLost | None) -> None:
        self.endings.append(error)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection that is not yet started, and its peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = await SocketNetwork().connect(*listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            yield connection, peer


def reset(peer: socket.socket) -> None:
    """Ends it as the system does for a process that is killed."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def test_a_connection_that_is_reset_behind_some_bytes_is_lost_once_they_are_read(run: Run) -> None:
    """As when a process is killed that had begun to answer. uvloop reports both at once, and only once."""

    async def main() -> None:
        async with connected() as (connection, peer):
            heard = Heard()
            connection.start(heard)
            peer.sendall(b"some bytes")
            reset(peer)
            await until(lambda: bool(heard.endings))
        assert heard.received_bytes == b"some bytes"
        assert "reset by peer" in str(heard.endings[0])

    run(main())


def test_a_half_closed_connection_still_receives(run: Run) -> None:
    """As when a node stops: what it has answered was done, and is not to be asked for again."""

    async def main() -> None:
        async with connected() as (connection, peer):
            heard = Heard()
            connection.start(heard)
            peer.sendall(b"answers")
            reset(peer)
            connection.send([b"a request"])
            connection.send([b"another"])
            await until(lambda: bool(heard.endings))
        assert heard.received_bytes == b"answers"
        assert len(heard.endings) == 1

    run(main())


class Answering(Heard):
    """Sends something whenever it has received something."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def received(self, count: int) -> None:
        super().received(count)
        self._connection.send([b"answer"])


def test_a_reset_connection_is_reported_once_to_a_late_writer(run: Run) -> None:
    async def main() -> None:
        async with connected() as (connection, peer):
            heard = Answering(connection)
            connection.start(heard)
            peer.sendall(b"more")
            await until(lambda: heard.received_bytes == b"more")
            assert peer.recv(100) == b"answer"
            peer.sendall(b"last")
            reset(peer)
            await until(lambda: bool(heard.endings))
        assert heard.received_bytes == b"morelast"
        assert len(heard.endings) == 1

    run(main())
