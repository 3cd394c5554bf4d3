"""The server: how many connections, for how long, and a stop that finishes."""

import asyncio
import socket
from typing import Any

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.limits import Limits
from cordwood.net.server import Server
from cordwood.net.serving import Answer
from cordwood.runtime.network import Part, SocketOptions
from cordwood.runtime.sockets import SocketNetwork
from tests.net.net_support import client_of, echo, frame, serving, until
from tests.net.parked import SMALL_BUFFERS, Parked, Run

# ---- how many, how long


def test_an_idle_connection_is_closed_and_one_with_a_parked_request_is_not(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with (
            serving(parked, Limits(idle_ms=1_000)) as (server, address),
            client_of(address) as waiting,
            client_of(address) as idle,
            client_of(address) as half_a_request,
        ):
            await waiting.send(frame(b"1"))
            await half_a_request.send(b"\0\0")
            assert await idle.is_closed()
            assert await half_a_request.is_closed()
            assert len(server) == 1
            parked.answer(b"1")
            assert await waiting.receive_frame() == b"1"
            assert await waiting.is_closed()
            assert server.counts.closed_idle == 3

    run(main())


def test_a_client_that_reads_nothing_for_too_long_is_idle_too(run: Run) -> None:
    async def main() -> None:
        async with (
            serving(lambda request, _: [frame(bytes(5_000_000))], Limits(idle_ms=100), options=SMALL_BUFFERS) as (
                server,
                address,
            ),
            client_of(address, 16_384) as client,
        ):
            await client.send(frame(b"x"))
            await until(lambda: server.counts.closed_idle == 1)
            assert len(server) == 0

    run(main())


def test_at_max_connections_new_ones_wait_for_room(run: Run) -> None:
    async def main() -> None:
        async with (
            serving(echo, Limits(max_connections=2)) as (server, address),
            client_of(address) as first,
            client_of(address) as second,
        ):
            for client in (first, second):
                await client.send(frame(b"in"))
                assert await client.receive_frame() == b"in"
            async with client_of(address) as third:
                await third.send(frame(b"waiting"))
                answer = asyncio.ensure_future(third.receive_frame())
                await first.send(frame(b"still"))
                assert await first.receive_frame() == b"still"
                assert len(server) == 2
                assert not answer.done()
                second.close()
                assert await answer == b"waiting"

    run(main())


def test_a_listener_may_have_its_own_limit(run: Run) -> None:
    async def main() -> None:
        async with (
            serving(echo, Limits(max_connections_of_listener={"TEST": 1})) as (server, limited),
            client_of(await server.listen("OTHER", "127.0.0.1", 0)) as elsewhere,
            client_of(limited) as first,
        ):
            for client in (elsewhere, first):
                await client.send(frame(b"in"))
                assert await client.receive_frame() == b"in"
            async with client_of(limited) as second:
                await second.send(frame(b"waiting"))
                answer = asyncio.ensure_future(second.receive_frame())
                await elsewhere.send(frame(b"still"))
                assert await elsewhere.receive_frame() == b"still"
                assert len(server) == 2
                assert not answer.done()
                first.close()
                assert await answer == b"waiting"

    run(main())


def test_raising_max_connections_admits_queued_connections(run: Run) -> None:
    async def main() -> None:
        async with (
            serving(echo, Limits(max_connections=1)) as (server, address),
            client_of(address),
            client_of(address) as second,
        ):
            await until(lambda: len(server) == 1)
            server.limits = Limits(max_connections=2)
            await second.send(frame(b"in"))
            assert await second.receive_frame() == b"in"

    run(main())


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_connections_per_ip=2),
        Limits(max_connections_per_ip=9, max_connections_per_ip_overrides={"127.0.0.1": 2}),
    ],
)
def test_an_address_with_all_its_connections_is_refused_another(run: Run, limits: Limits) -> None:
    async def main() -> None:
        async with (
            serving(echo, limits) as (server, address),
            client_of(address) as first,
            client_of(address) as second,
        ):
            await until(lambda: len(server) == 2)
            async with client_of(address) as third:
                assert await third.is_closed()
            assert server.counts.refused == 1
            second.close()
            await until(lambda: len(server) == 1)
            async with client_of(address) as fourth:
                for client in (first, fourth):
                    await client.send(frame(b"in"))
                    assert await client.receive_frame() == b"in"

    run(main())


def test_500_connections_at_once_are_served(run: Run) -> None:
    async def talk(number: int, address: Any, all_in: asyncio.Barrier) -> None:
        async with client_of(address) as client:
            await all_in.wait()
            for turn in range(10):
                await client.send(frame(b"%d %d" % (number, turn)))
                assert await client.receive_frame() == b"%d %d" % (number, turn)
            await all_in.wait()

    async def main() -> None:
        options = SocketOptions(listen_backlog=500)
        async with serving(echo, options=options) as (server, address):
            all_in = asyncio.Barrier(500)
            await asyncio.gather(*(talk(number, address, all_in) for number in range(500)))
            assert server.counts.accepted == 500
            await until(lambda: len(server) == 0)

    run(main())


# ---- the stop


def test_a_stop_answers_requests_in_progress_and_accepts_no_connections(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with (
            serving(parked) as (server, address),
            client_of(address) as busy,
            client_of(address) as idle,
        ):
            await busy.send(frame(b"1") + frame(b"2"))
            await until(lambda: len(parked.replies) == 2)
            stopping = asyncio.ensure_future(server.stop(grace_seconds=50))
            assert await idle.is_closed()
            with pytest.raises(ConnectionRefusedError):
                async with client_of(address):
                    pass
            await busy.send(frame(b"not begun"))
            parked.answer(b"2")
            assert not stopping.done()
            parked.answer(b"1")
            assert [await busy.receive_frame() for _ in range(2)] == [b"1", b"2"]
            assert await busy.is_closed()
            await stopping
            assert not parked.replies

    run(main())


def test_a_stop_sends_unsent_bytes(run: Run) -> None:
    async def main() -> None:
        response = bytes(3_000_000)
        async with (
            serving(lambda request, connection: [frame(response)], options=SMALL_BUFFERS) as (server, address),
            client_of(address, 16_384) as client,
        ):
            await client.send(frame(b"1"))
            assert await client.receive(1) == b"\0"
            stopping = asyncio.ensure_future(server.stop(grace_seconds=50))
            assert len(await client.receive(1 << 30)) == 4 + len(response) - 1
            await stopping

    run(main())


def test_a_stop_cuts_connections_that_do_not_end(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    cancelled = []

    async def endless() -> list[Part]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return []

    async def main() -> None:
        async with serving(lambda request, connection: endless()) as (server, address), client_of(address) as client:
            await client.send(frame(b"1"))
            await until(lambda: [served.in_work for served in server] == [1])
            await server.stop(grace_seconds=0.01)
            assert await client.is_closed()
            assert cancelled == [True]
            assert len(server) == 0

    run(main())
    assert "1 connections had work after 0.01 s and were cut" in caplog.messages


def test_a_server_that_holds_lets_its_peers_wait_until_it_accepts(run: Run) -> None:
    async def main() -> None:
        server = Server(SocketNetwork(), echo)
        server.hold()
        address = await server.listen("TEST", "127.0.0.1", 0)
        async with client_of(address) as client:
            await client.send(frame(b"early"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(server) == 0
            server.accept()
            assert await client.receive_frame() == b"early"
        await server.stop(1)

    run(main())


# ---- a turn each


def test_a_pipeline_of_requests_with_large_answers_lets_other_connections_in_between(run: Run) -> None:
    begun: list[bytes] = []
    other = socket.socket()

    def large(request: bytearray, _connection: ConnectionInfo) -> Answer:
        begun.append(bytes(request))
        if len(begun) == 1:
            other.sendall(frame(b"other"))
        return [frame(bytes(50_000))]

    async def main() -> None:
        async with serving(large) as (server, address), client_of(address) as client:
            other.connect((address.host, address.port))
            await until(lambda: len(server) == 2)
            await client.send(frame(b"mine") * 100)
            for _ in range(100):
                assert await client.receive_frame() == bytes(50_000)
        assert begun.count(b"mine") == 100
        assert begun.index(b"other") < 10

    with other:
        run(main())
