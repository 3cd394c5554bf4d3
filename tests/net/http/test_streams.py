"""Server-sent events, as Starlette streams them, in virtual time."""

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.server import HttpServer
from tests.net.http_peer import Connect, in_worlds

GET = b"GET /events HTTP/1.1\r\nHost: node\r\nAccept: text/event-stream\r\n\r\n"


class Events:
    """An event every 100 s: longer than any timeout but that between two requests."""

    def __init__(self) -> None:
        self.readers = 0
        self.app = Starlette(routes=[Route("/events", self._stream), Route("/flood", self._flood)])

    async def _stream(self, request: Request) -> Response:
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        self.readers += 1
        try:
            for number in range(1_000):
                yield b"id: %d\ndata: event %d\n\n" % (number, number)
                await asyncio.sleep(100)
        finally:
            self.readers -= 1

    async def _flood(self, request: Request) -> Response:
        async def flood() -> AsyncIterator[bytes]:
            while True:
                yield b"data: " + bytes(5_000) + b"\n\n"

        return StreamingResponse(flood(), media_type="text/event-stream")


def test_events_arrive_one_by_one_for_as_long_as_the_reader_stays() -> None:
    events = Events()

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        began = asyncio.get_running_loop().time()
        peer.send(GET)
        await peer.until(lambda peer: b"data: event 7\n\n" in peer.heard)
        assert 699 < asyncio.get_running_loop().time() - began < 702
        assert b"content-type: text/event-stream" in peer.heard

    in_worlds(test, events.app)


def test_a_stream_ends_when_its_reader_leaves() -> None:
    events = Events()

    async def test(server: HttpServer, connect: Connect) -> None:
        peer, other = await connect(), await connect()
        for one in (peer, other):
            one.send(GET)
            await one.until(lambda peer: b"event 0" in peer.heard)
        assert events.readers == 2
        peer.connection.close()
        # Long before the next event: nothing has to be sent for that.
        await asyncio.sleep(5)
        assert (events.readers, len(server)) == (1, 1)
        await other.until(lambda peer: b"event 1" in peer.heard)

    in_worlds(test, events.app)
    assert events.readers == 0


def test_a_stream_to_a_reader_that_never_reads_is_dropped() -> None:
    events = Events()

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.connection.pause_reading()
        peer.send(b"GET /flood HTTP/1.1\r\nHost: node\r\n\r\n")
        await asyncio.sleep(25)
        assert len(server) == 1
        # Gone with its app, which has ended.
        await asyncio.sleep(10)
        assert len(server) == 0

    in_worlds(test, events.app, HttpLimits(write_timeout_s=30))


def test_a_stop_ends_streams_at_once_and_properly() -> None:
    events = Events()

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.until(lambda peer: b"event 0" in peer.heard)
        began = asyncio.get_running_loop().time()
        await server.stop(grace_seconds=60)
        assert asyncio.get_running_loop().time() - began < 1
        # Not cut off: the response is complete.
        assert (await peer.answer()).body == b"id: 0\ndata: event 0\n\n"
        await peer.until_lost()

    in_worlds(test, events.app)
    assert events.readers == 0
