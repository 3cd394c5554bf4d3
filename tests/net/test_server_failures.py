"""The server: failures that stay where they happened."""

import asyncio
import gc
import logging
import struct
import warnings
from typing import Any

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.limits import Limits
from cordwood.net.serving import Answer, BadRequest, Reply
from cordwood.runtime.network import Part
from tests.net.net_support import client_of, echo, frame, serving, until
from tests.net.parked import Parked, Run


@pytest.mark.parametrize(
    ("size", "line"),
    [(-5, "a frame of negative size (-5)"), (2_000, "a frame of 2000 bytes, where 1000 are allowed")],
)
def test_a_bad_size_closes_only_its_own_connection_with_one_log_line(
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


def test_responses_before_a_failure_are_sent(run: Run) -> None:
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
    assert "a response is not a list of parts" in message


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


def test_requests_begun_during_a_server_stop_end_without_a_log_line(run: Run) -> None:
    """Its client has gone in the same turn of the loop, so nothing is waited for."""
    begun: list[str] = []

    async def answered() -> list[Part]:
        begun.append("answered")
        await asyncio.Event().wait()
        return []

    async def main() -> None:
        stopping: list[asyncio.Task[None]] = []

        def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
            stopping.append(asyncio.get_running_loop().create_task(server.stop(grace_seconds=60)))
            for served in server:
                served.abort()
            return answered()

        async with serving(handler) as (server, address), client_of(address) as client:
            await client.send(frame(b"last words"))
            await until(lambda: bool(stopping))
            await stopping[0]

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        run(main())
        gc.collect()
    assert [str(complaint.message) for complaint in complaints] == []
    assert begun == ["answered"]
