"""One request and its response as an ASGI app sees them: `receive` and `send`.

A request's body is passed on as it arrives. `receive` after the body waits, and returns `http.disconnect` once the peer
has left or the response is complete. `send` waits while the peer is slower than the app, and raises `Disconnected` once
the peer has left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from .asgi import Message
from .protocol import Headers, HttpProtocol

_EVENT_STREAM = b"text/event-stream"


class Disconnected(OSError):
    """The peer has left or was disconnected: nothing can be sent."""


class Link(Protocol):
    """The connection, as an exchange needs it."""

    def send(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Returns once the peer has taken most of what was sent, or has left."""

    def exchange_changed(self) -> None:
        """The app has begun or ceased to wait in `receive`, or has taken some of the body."""

    def common_headers(self) -> Headers:
        """Headers that the server adds to each response."""


class Exchange:
    def __init__(self, link: Link, protocol: HttpProtocol) -> None:
        self._link = link
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._is_body_taken = False
        # The response's head until it is sent: together with the first of the body if that follows at once.
        self._start: tuple[int, Headers] | None = None
        self._is_event_stream = False
        # Bytes of the body that the app has not taken.
        self.buffered_bytes = 0
        # The app waits in `receive`.
        self.is_awaited = False
        self.is_request_complete = False
        self.is_response_complete = False
        self.is_over = False

    # ---- called by the connection

    def add_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self.buffered_bytes += len(data)
        self._news.set()

    def finish_request(self) -> None:
        self.is_request_complete = True
        self._news.set()

    def disconnect(self) -> None:
        """Ends the exchange: further output of the app is dropped."""
        self.is_over = True
        self.drop_head()
        self._news.set()

    def drop_head(self) -> None:
        """The app has ended. If its response's head is not out yet, another response can take its place."""
        self._start = None

    def end_event_stream(self) -> None:
        """The server stops. A stream of events has no end, so it is ended here; its readers reconnect."""
        if self._is_event_stream and not (self.is_over or self.is_response_complete):
            self._send_head()
            self._finish(self._protocol.body(b"", more=False))
            self.disconnect()

    # ---- called by the app

    async def receive(self) -> Message:
        while not (self._chunks or self._is_end_due or self.is_over or self.is_response_complete):
            self._set_awaited(True)
            self._news.clear()
            try:
                await self._news.wait()
            finally:
                self._set_awaited(False)
        if self.is_over or self.is_response_complete:
            return {"type": "http.disconnect"}
        body = b"".join(self._chunks)
        self._chunks.clear()
        self.buffered_bytes = 0
        self._is_body_taken = self.is_request_complete
        self._link.exchange_changed()
        return {"type": "http.request", "body": body, "more_body": not self.is_request_complete}

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if self.is_over:
            raise Disconnected("the peer has left")
        if kind == "http.response.start":
            self._begin(message)
        elif kind == "http.response.body":
            self._add(message)
            # Yields at least one turn of the loop: an app may send a lot to a peer that reads all of it.
            await asyncio.sleep(0)
            await self._link.drain()
        else:
            raise RuntimeError(f"an app sent {kind!r}: expected http.response.start or http.response.body")

    # ----

    @property
    def _is_end_due(self) -> bool:
        return self.is_request_complete and not self._is_body_taken

    def _set_awaited(self, is_awaited: bool) -> None:
        self.is_awaited = is_awaited
        if is_awaited and self._protocol.is_awaiting_continue and not self.is_over:
            self._link.send(self._protocol.continue_())
        self._link.exchange_changed()

    def _begin(self, message: Message) -> None:
        if self._start is not None or not self._protocol.can_still_respond:
            raise RuntimeError("an app sent http.response.start twice")
        headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        self._is_event_stream = any(
            name.lower() == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in headers
        )
        self._protocol.check_head(message["status"], headers)
        self._start = (message["status"], headers)
        # The head is sent alone if no body follows in this turn of the loop, so that a stream's reader sees that it is
        # open.
        self._loop.call_soon(self._send_head)

    def _send_head(self) -> None:
        if self._start is not None:
            self._link.send(self._first(b"", more=True))

    def _add(self, message: Message) -> None:
        if self._start is None and self._protocol.can_still_respond:
            raise RuntimeError("an app sent http.response.body before http.response.start")
        if self.is_response_complete:
            raise RuntimeError("an app sent http.response.body after the last one")
        body, more = bytes(message.get("body", b"")), bool(message.get("more_body", False))
        out = self._first(body, more=more) if self._start is not None else self._protocol.body(body, more=more)
        if more:
            self._link.send(out)
        else:
            self._finish(out)

    def _first(self, body: bytes, *, more: bool) -> bytes:
        assert self._start is not None
        (status, headers), self._start = self._start, None
        headers += self._link.common_headers()
        if not self.is_request_complete:
            # The rest of the body is not waited for.
            headers.append((b"connection", b"close"))
        return self._protocol.respond(status, headers, body, more=more)

    def _finish(self, out: bytes) -> None:
        self.is_response_complete = True
        self._link.send(out)
        self._news.set()
