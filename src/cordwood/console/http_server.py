"""A small HTTP/1.1 server for pages that are made on the node's own loop: GET and HEAD, no bodies.

It is bounded in all that a peer could make grow: so many connections, so long a head, one request of a connection at a
time, and so long for a peer to send a request or to take an answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from cordwood.runtime.network import Address, Connection, ConnectionLost, Listener, Network

_log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 64
_MAX_HEAD_BYTES = 8_192
_READ_BYTES = 4_096
# For a peer to send its next request, or to take an answer. Prometheus asks every minute at the least.
_PATIENCE_S = 120.0

_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (\S+) HTTP/1\.([01])")


@dataclass(frozen=True, slots=True)
class Page:
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


# Given the path and the query, undecoded.
PageMaker = Callable[[str, str], Awaitable[Page]]


class HttpServer:
    """server = await HttpServer.listen(network, "127.0.0.1", 9644, make_page)"""

    def __init__(self, make_page: PageMaker) -> None:
        self._make_page = make_page
        self._listener: Listener
        self._connections: set[_HttpConnection] = set()

    @classmethod
    async def listen(cls, network: Network, host: str, port: int, make_page: PageMaker) -> HttpServer:
        """Raises `CannotListen`."""
        server = cls(make_page)
        server._listener = await network.listen(host, port, server._welcome)
        return server

    @property
    def address(self) -> Address:
        return self._listener.address

    def stop(self) -> None:
        self._listener.close()
        for connection in tuple(self._connections):
            connection.abort()

    def _welcome(self, connection: Connection) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            connection.abort()
            return
        served = _HttpConnection(connection, self._make_page, self._connections.discard)
        self._connections.add(served)
        connection.start(served)


class BadHead(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    method: str
    path: str
    query: str
    keep_alive: bool

    @classmethod
    def parse(cls, data: bytes) -> Head:
        """Raises `BadHead`."""
        first, *lines = data.decode("latin-1").split("\r\n")
        found = _REQUEST_LINE.fullmatch(first)
        if found is None:
            raise BadHead(HTTPStatus.BAD_REQUEST)
        method, target, minor = found.groups()
        fields: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadHead(HTTPStatus.BAD_REQUEST)
            fields[name.lower()] = value.strip()
        if minor == "1" and "host" not in fields:
            raise BadHead(HTTPStatus.BAD_REQUEST)
        if "transfer-encoding" in fields or fields.get("content-length", "0") != "0":
            raise BadHead(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if method not in ("GET", "HEAD"):
            raise BadHead(HTTPStatus.METHOD_NOT_ALLOWED)
        options = {option.strip().lower() for option in fields.get("connection", "").split(",")}
        keep_alive = "close" not in options and (minor == "1" or "keep-alive" in options)
        path, _, query = target.partition("?")
        return cls(method, path, query, keep_alive)


class _HttpConnection:
    """The `Receiver` of one connection. Nothing is read while an answer is made or sent."""

    def __init__(self, connection: Connection, make_page: PageMaker, ended: Callable[[_HttpConnection], None]) -> None:
        self._connection = connection
        self._make_page = make_page
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._arrived = bytearray()
        self._scratch = bytearray(_READ_BYTES)
        self._task: asyncio.Task[None] | None = None
        self._is_sending = False
        self._is_lost = False
        self._timer = self._loop.call_later(_PATIENCE_S, self.abort)

    def abort(self) -> None:
        self._connection.abort()

    # ---- what the connection tells (Receiver)

    def buffer(self) -> bytearray:
        return self._scratch

    def received(self, count: int) -> None:
        self._arrived += self._scratch[:count]
        self._begin_if_idle()

    def sent(self) -> None:
        if self._is_sending and not self._connection.unsent_bytes:
            self._is_sending = False
            self._go_on()

    def lost(self, error: ConnectionLost | None) -> None:
        self._is_lost = True
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._ended(self)

    # ---- one request after the other

    def _begin_if_idle(self) -> None:
        if self._arrived and self._task is None and not (self._is_sending or self._is_lost):
            self._begin()

    def _begin(self) -> None:
        end = self._arrived.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES)
        if end < 0:
            if len(self._arrived) >= _MAX_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        head = bytes(self._arrived[:end])
        del self._arrived[: end + 4]
        try:
            request = Head.parse(head)
        except BadHead as bad:
            self._refuse(bad.status)
            return
        self._connection.pause_reading()
        self._task = self._loop.create_task(self._answer(request))

    async def _answer(self, request: Head) -> None:
        try:
            page = await self._make_page(request.path, request.query)
        except Exception as error:  # noqa: BLE001  # logged
            _log.error("the page %s could not be made", request.path, exc_info=error)
            page = error_page(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._task = None
        self._send(page, with_body=request.method != "HEAD", keep_alive=request.keep_alive)

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(error_page(status), with_body=True, keep_alive=False)

    def _send(self, page: Page, *, with_body: bool, keep_alive: bool) -> None:
        fields = [
            f"HTTP/1.1 {page.status.value} {page.status.phrase}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body)}",
            "Cache-Control: no-store",
        ]
        if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
            fields.append("Allow: GET, HEAD")
        if not keep_alive:
            fields.append("Connection: close")
        head = "\r\n".join([*fields, "", ""]).encode("latin-1")
        self._restart_timer()
        self._connection.send([head, page.body] if with_body and page.body else [head])
        if not keep_alive:
            self._connection.close()
        elif self._connection.unsent_bytes:
            self._is_sending = True
        else:
            self._go_on()

    def _go_on(self) -> None:
        """With the next request, which may be here already."""
        self._restart_timer()
        self._connection.resume_reading()
        # In a turn of its own: a peer that sends many at once has to wait its turn each time.
        self._loop.call_soon(self._begin_if_idle)

    def _restart_timer(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(_PATIENCE_S, self.abort)


def error_page(status: HTTPStatus) -> Page:
    return Page(f"{status.value} {status.phrase}\n".encode(), status=status)
