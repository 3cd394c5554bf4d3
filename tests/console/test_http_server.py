"""The HTTP server of the metrics, over simulated networks that cut and delay what is sent."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from http_peer import Peer, in_worlds

from cordwood.console.http_server import HttpServer, Page

Connect = Callable[[], Coroutine[Any, Any, Peer]]
GET = b"GET /metrics?a=b HTTP/1.1\r\nHost: node\r\n\r\n"


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for _ in range(3):
            peer.send(GET)
            status, fields, body = await peer.answer()
            assert (status, body) == (200, b"hello /metrics a=b")
            assert "Connection" not in fields

    in_worlds(test)


def test_requests_that_come_at_once_are_answered_in_their_order() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(*(f"GET /{number} HTTP/1.1\r\nHost: node\r\n\r\n".encode() for number in range(20)))
        assert [(await peer.answer())[2] for _ in range(20)] == [f"hello /{number} ".encode() for number in range(20)]

    in_worlds(test)


def test_a_request_may_come_byte_by_byte() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for byte in GET:
            peer.send(bytes([byte]))
            await asyncio.sleep(0.01)
        assert (await peer.answer())[0] == 200

    in_worlds(test)


def test_head_is_answered_without_the_body() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(b"HEAD / HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
        await peer.until_lost()
        head, _, body = bytes(peer.heard).partition(b"\r\n\r\n")
        assert b"Content-Length: 8" in head
        assert body == b""

    in_worlds(test)


@pytest.mark.parametrize(
    "request_",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: node\r\nConnection: x, Close\r\n\r\n"],
    ids=["HTTP 1.0", "asked to"],
)
def test_the_connection_is_closed_after_an_answer(request_: bytes) -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(request_)
        await peer.until_lost()
        assert peer.heard.startswith(b"HTTP/1.1 200 OK\r\n")
        assert peer.heard.endswith(b"hello / ")

    in_worlds(test)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x04\x00\x00\x00\x00\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : node\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: node\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: node\r\nX: " + b"x" * 20_000, 431),
    ],
    ids=["Kafka", "no version", "no host", "a bad field", "POST", "a body", "chunks", "a long head"],
)
def test_what_is_not_served_is_refused_and_ends_the_connection(request_: bytes, status: int) -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(request_)
        await peer.until_lost()
        assert peer.heard.startswith(f"HTTP/1.1 {status} ".encode())

    in_worlds(test)


def test_a_page_that_cannot_be_made_is_a_500_and_the_connection_goes_on() -> None:
    async def make_page(path: str, query: str) -> Page:
        if path == "/bad":
            raise ZeroDivisionError
        return Page(b"good")

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(b"GET /bad HTTP/1.1\r\nHost: node\r\n\r\n", GET)
        assert (await peer.answer())[0] == 500
        assert (await peer.answer())[2] == b"good"

    in_worlds(test, make_page)


def test_a_peer_that_does_not_finish_its_request_is_cut_off() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET[:10])
        await peer.until_lost()
        assert peer.heard == b""

    in_worlds(test)


def test_a_peer_that_does_not_take_its_answer_is_cut_off() -> None:
    async def make_page(path: str, query: str) -> Page:
        return Page(bytes(10_000_000))

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.until(lambda peer: len(peer.heard) > 0)
        peer.connection.pause_reading()
        await asyncio.sleep(300)
        peer.connection.resume_reading()
        await peer.until_lost()
        assert len(peer.heard) < 10_000_000

    in_worlds(test, make_page)


def test_there_are_no_more_connections_than_may_be_and_room_comes_back() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peers = [await connect() for _ in range(64)]
        for peer in peers:
            peer.send(GET)
            assert (await peer.answer())[0] == 200
        beyond = await connect()
        async with asyncio.timeout(10):
            await beyond.until_lost()
        peers[0].connection.close()
        await peers[0].until_lost()
        await asyncio.sleep(1)
        late = await connect()
        late.send(GET)
        assert (await late.answer())[0] == 200

    in_worlds(test, seeds=range(2))


def test_a_peer_that_leaves_while_its_page_is_made_stops_the_making() -> None:
    stopped: list[str] = []

    async def make_page(path: str, query: str) -> Page:
        try:
            await asyncio.sleep(3000)
        except asyncio.CancelledError:
            stopped.append(path)
            raise
        return Page(b"")

    async def test(_server: HttpServer, connect: Connect) -> None:
        stopped.clear()
        peer = await connect()
        peer.send(GET)
        await asyncio.sleep(10)
        peer.connection.abort()
        await asyncio.sleep(200)
        assert stopped == ["/metrics"]

    in_worlds(test, make_page)


def test_a_stop_closes_what_is_open() -> None:
    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.answer()
        server.stop()
        await peer.until_lost()

    in_worlds(test)
