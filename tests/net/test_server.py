"""The server: order, back-pressure, limits, failures that stay where they happened, a stop that finishes."""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from net_support import client_of, echo, frame, serving, until

from cordwood.net.framing import SCRATCH_BYTES
from cordwood.net.server import Server
from cordwood.net.serving import Answer, BadRequest, ConnectionInfo, Limits, Reply
from cordwood.runtime.network import Part, SocketOptions
from cordwood.runtime.sockets import SocketNetwork

Run = Callable[[Coroutine[Any, Any, None]], None]

SMALL_BUFFERS = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)


class Parked:
    """A handler that answers nothing until it is told to; a request that starts with "now" is answered at once, and
    one that starts with "hold" holds those behind it."""

    def __init__(self) -> None:
        self.replies: dict[bytes, Reply] = {}

    def __call__(self, request: bytearray, connection: ConnectionInfo) -> Answer:
        if request.startswith(b"now"):
            return [frame(bytes(request))]
        reply = self.replies[bytes(request)] = Reply(holds=request.startswith(b"hold"))
        return reply

    def answer(self, request: bytes) -> None:
        self.replies.pop(request).answer([frame(request)])


# ---- order


def test_responses_keep_the_order_of_the_requests_whatever_order_they_are_ready_in(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with serving(parked) as (_, address), client_of(address) as client:
            await client.send(b"".join(map(frame, [b"1", b"2", b"now 3", b"4", b"now 5"])))
            await until(lambda: len(parked.replies) == 3)
            for request in (b"4", b"2", b"1"):
                parked.answer(request)
            assert [await client.receive_frame() for _ in range(5)] == [b"1", b"2", b"now 3", b"4", b"now 5"]

    run(main())


def test_the_four_kinds_of_answer_mix_on_one_connection(run: Run) -> None:
    async def later(request: bytes) -> list[Part] | None:
        await asyncio.sleep(0)
        return [frame(request)] if b"silent" not in request else None

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        kind = bytes(request).split()[0]
        if kind == b"none":
            return None
        if kind == b"coroutine":
            return later(bytes(request))
        if kind == b"reply":
            reply = Reply()
            reply.answer([frame(bytes(request))])
            return reply
        return [frame(bytes(request))]

    kinds = [b"list", b"none", b"coroutine", b"reply", b"list", b"coroutine silent", b"none", b"list", b"coroutine"]
    requests = [b"%s %d" % (kind, number) for number, kind in enumerate(kinds * 300)]

    async def main() -> None:
        async with serving(handler) as (_, address), client_of(address) as client:
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            for request in requests:
                if not (request.startswith(b"none") or b"silent" in request):
                    assert await client.receive_frame() == request
            await sending

    run(main())


def test_requests_behind_one_that_holds_are_begun_when_it_is_answered(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with serving(parked) as (_, address), client_of(address) as client, client_of(address) as other:
            await client.send(b"".join(map(frame, [b"1", b"hold 2", b"3", b"now 4"])))
            await until(lambda: len(parked.replies) == 2)
            # Of other connections they are.
            await other.send(frame(b"now"))
            assert await other.receive_frame() == b"now"
            assert list(parked.replies) == [b"1", b"hold 2"]
            parked.answer(b"hold 2")
            await until(lambda: b"3" in parked.replies)
            for request in (b"1", b"3"):
                parked.answer(request)
            assert [await client.receive_frame() for _ in range(4)] == [b"1", b"hold 2", b"3", b"now 4"]

    run(main())


def test_an_answer_at_once_makes_no_task(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (_, address), client_of(address) as client:
            loop = asyncio.get_running_loop()
            made = []

            def count(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
                made.append(coroutine)
                return asyncio.Task(coroutine, loop=loop, **options)

            loop.set_task_factory(count)
            await client.send(frame(b"x") * 100)
            assert [await client.receive_frame() for _ in range(100)] == [b"x"] * 100
            loop.set_task_factory(None)
            assert made == []

    run(main())


# ---- back-pressure


def test_reading_stops_while_too_many_requests_are_in_work_and_goes_on_after(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        limits = Limits(max_requests_in_work=10)
        requests = [b"%d" % number for number in range(100)]
        async with serving(parked, limits) as (server, address), client_of(address) as client:
            await client.send(b"".join(map(frame, requests)))
            await until(lambda: len(parked.replies) == 10)
            (served,) = server
            for request in requests:
                assert served.in_work <= 10
                await until(lambda request=request: request in parked.replies)  # type: ignore[misc]
                assert len(parked.replies) <= 10
                parked.answer(request)
                assert await client.receive_frame() == request

    run(main())


def test_one_request_at_a_time_is_possible(run: Run) -> None:
    async def main() -> None:
        requests = [b"%d" % number for number in range(5_000)]

        async def handler(request: bytearray) -> list[Part]:
            return [frame(bytes(request))]

        async with (
            serving(lambda request, _: handler(request), Limits(max_requests_in_work=1)) as (_, address),
            client_of(address) as client,
        ):
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            assert [await client.receive_frame() for _ in requests] == requests
            await sending

    run(main())


def test_a_client_that_does_not_read_never_grows_memory(run: Run) -> None:
    limit = 200_000
    response = bytes(20_000)
    handled = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        handled.append(len(request))
        return [frame(response)]

    async def main() -> None:
        limits = Limits(max_held_bytes=limit)
        requests = 5_000
        most = 0
        async with (
            serving(handler, limits, options=SMALL_BUFFERS) as (server, address),
            client_of(address, 16_384) as client,
        ):
            sending = asyncio.ensure_future(client.send(frame(bytes(100)) * requests))
            await until(lambda: len(server) == 1)
            (served,) = server
            await until(lambda: served.held_bytes > limit)
            began = len(handled)
            # It stays so: nothing more is begun, however often the loop turns.
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(handled) == began
            for _ in range(requests):
                # What one read may bring (the scratch), the limit, and what is gathered past it.
                most = max(most, served.buffered_bytes)
                assert await client.receive_frame() == response
            await sending
        assert most < limit + SCRATCH_BYTES + 65_536 + 2 * len(response)
        assert len(handled) == requests

    run(main())


def test_requests_in_work_count_as_memory_too(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        requests = [b"%d" % number + bytes(100_000) for number in range(20)]
        async with serving(parked, Limits(max_held_bytes=500_000)) as (server, address), client_of(address) as client:
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            await until(lambda: len(parked.replies) == 5)
            (served,) = server
            assert served.buffered_bytes < 500_000 + 100_000 + 2 * 131_072
            for request in requests:
                await until(lambda request=request: request in parked.replies)  # type: ignore[misc]
                assert served.in_work <= 5
                parked.answer(request)
                assert await client.receive_frame() == request
            await sending

    run(main())


# ---- what harms one connection only


@pytest.mark.parametrize(
    ("size", "line"),
    [(-5, "a frame of negative size (-5)"), (2_000, "a frame of 2000 bytes, where 1000 are allowed")],
)
def test_a_bad_size_closes_its_connection_with_one_line_and_harms_nobody(
    run: Run, caplog: pytest.LogCaptureFixture, size: int, line: str
) -> None:
    async def main() -> None:
        async with (
            serving(echo, Limits(request_max_bytes=1_000)) as (server, address),
            client_of(address) as good,
            client_of(address) as bad,
        ):
            await bad.send(struct.pack(">i", size) + bytes(100))
            assert await bad.is_closed()
            await good.send(frame(b"still here"))
            assert await good.receive_frame() == b"still here"
            assert len(server) == 1
            assert server.counts.bad_frames == 1

    with caplog.at_level(logging.WARNING):
        run(main())
    (message,) = caplog.messages
    assert message.endswith(f"on TEST: connection closed: {line}")


@pytest.mark.parametrize("how", ["at once", "reply", "reply at once", "coroutine"])
def test_an_exception_of_a_handler_is_logged_with_its_request_and_costs_its_connection_only(
    run: Run, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async def fail() -> list[Part]:
        raise ZeroDivisionError("our bug")

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        if not request.endswith(b"boom"):
            return echo(request, connection)
        if how == "coroutine":
            return fail()
        if how == "reply at once":
            reply = Reply()
            reply.fail(ZeroDivisionError("our bug"))
            return reply
        if how == "reply":
            reply = Reply()
            asyncio.get_running_loop().call_soon(reply.fail, ZeroDivisionError("our bug"))
            return reply
        raise ZeroDivisionError("our bug")

    async def main() -> None:
        async with serving(handler) as (server, address), client_of(address) as good, client_of(address) as bad:
            await bad.send(frame(struct.pack(">hhi", 3, 12, 77) + b"boom"))
            assert await bad.is_closed()
            await good.send(frame(b"still here"))
            assert await good.receive_frame() == b"still here"
            assert server.counts.handler_failures == 1

    with caplog.at_level(logging.WARNING):
        run(main())
    (record,) = caplog.records
    assert "handler failed on a request of 12 bytes, API 3 version 12, correlation id 77: 0003" in record.message
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_what_was_answered_before_a_failure_is_sent(run: Run) -> None:
    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        if request == b"boom":
            raise BadRequest("boom")
        return echo(request, connection)

    async def main() -> None:
        async with serving(handler) as (_, address), client_of(address) as client:
            await client.send(frame(b"1") + frame(b"2") + frame(b"boom"))
            assert await client.receive(100) == frame(b"1") + frame(b"2")

    run(main())


@pytest.mark.parametrize("answer", [[None], [["a list"]], [frame(b""), 5]])
def test_an_answer_that_cannot_be_sent_costs_its_connection_only(
    run: Run, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    async def main() -> None:
        async with serving(lambda request, _: answer) as (server, address), client_of(address) as client:
            await client.send(frame(b"1"))
            assert await client.is_closed()
            assert server.counts.handler_failures == 1
            assert len(server) == 0

    run(main())
    (message,) = caplog.messages
    assert "a response is not made of parts" in message


def test_a_bad_request_closes_its_connection_with_a_line_and_no_traceback(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        raise BadRequest("it has no end")

    async def main() -> None:
        async with serving(handler) as (server, address), client_of(address) as client:
            await client.send(frame(b"abc"))
            assert await client.is_closed()
            assert server.counts.bad_requests == 1
            assert server.counts.handler_failures == 0

    with caplog.at_level(logging.WARNING):
        run(main())
    (record,) = caplog.records
    assert record.message.endswith("connection closed: it has no end; a request of 3 bytes: 616263")
    assert record.exc_info is None


def test_a_reply_to_a_client_that_is_gone_is_dropped(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with serving(parked) as (server, address):
            async with client_of(address) as client:
                await client.send(frame(b"1"))
                await until(lambda: len(parked.replies) == 1)
                reply = parked.replies[b"1"]
                assert not reply.abandoned
            await until(lambda: reply.abandoned)
            assert len(server) == 0
            reply.answer([frame(b"too late")])

    run(main())


# ---- how many, how long


def test_an_idle_connection_is_closed_and_one_with_a_parked_request_is_not(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with (
            serving(parked, Limits(idle_ms=100)) as (server, address),
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


def test_a_higher_max_connections_lets_those_who_wait_in(run: Run) -> None:
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


def test_a_stop_answers_what_is_in_work_and_takes_nobody_new(run: Run) -> None:
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


def test_a_stop_sends_what_is_unsent(run: Run) -> None:
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


def test_a_stop_cuts_what_does_not_end(run: Run, caplog: pytest.LogCaptureFixture) -> None:
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
