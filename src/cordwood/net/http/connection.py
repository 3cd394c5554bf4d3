"""One HTTP connection: reads requests, runs the app for one after the other, and sends its responses.

It reads only what it can use: the head and the body of a request, within bounds. While the app works on a complete
request it reads only if the app waits in `receive`, which reports a peer's disconnect. So a peer that closes its
sending side after a request still gets the answer, unless that answer is a stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus

from cordwood.runtime.network import Connection, ConnectionLost

from .asgi import App, Scope
from .exchange import Exchange
from .limits import HttpLimits
from .protocol import BadHttp, Event, Headers, HttpProtocol, RequestEnd, RequestHead

_log = logging.getLogger(__name__)


class _Wait(Enum):
    """The peer's next action, with its timeout."""

    NOTHING = "nothing"
    FIRST_REQUEST = "first request"
    NEXT_REQUEST = "next request"
    HEAD = "head"
    BODY = "body"
    CLOSE = "close"


class HttpConnection:
    """The `Receiver` of an accepted connection. `ended` is called when it has closed and its app has returned."""

    def __init__(
        self,
        connection: Connection,
        app: App,
        scheme: str,
        limits: HttpLimits,
        scratch: bytearray,
        common_headers: Callable[[], Headers],
        ended: Callable[[HttpConnection], None],
    ) -> None:
        self._connection = connection
        self._app = app
        self._scheme = scheme
        self._limits = limits
        self._scratch = scratch
        self._common_headers = common_headers
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._protocol = HttpProtocol(limits)
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._wait = _Wait.NOTHING
        self._wait_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._has_served = False
        self._is_paused = False
        # A response that ends the connection was sent; further input is dropped.
        self._is_lingering = False
        self._is_stopping = False
        self._is_lost = False

    def start(self) -> None:
        self._connection.start(self)
        self._settle()

    def finish(self) -> None:
        """Answers the request that is in flight, if any, and closes."""
        self._is_stopping = True
        if self._exchange is not None:
            self._exchange.end_event_stream()
        elif not self._is_lingering:
            self._connection.close()

    def abort(self) -> None:
        """Closes at once. The app's task is cancelled."""
        self._connection.abort()
        if self._task is not None:
            self._task.cancel()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The app at work."""
        return self._task

    # ---- called by the transport (Receiver)

    def buffer(self) -> bytearray:
        return self._scratch

    def received(self, count: int) -> None:
        if self._is_lingering:
            return
        self._take(self._protocol.receive(bytes(self._scratch[:count])), is_progress=True)

    def sent(self) -> None:
        self._stop_write_timer()
        self._watch_unsent()
        if self._connection.unsent_bytes <= self._limits.max_buffered_bytes:
            self._room.set()

    def lost(self, error: ConnectionLost | None) -> None:
        if error is not None:
            _log.info("%s: %s", self._connection.peer, error)
        self._is_lost = True
        self._expect(_Wait.NOTHING)
        self._stop_write_timer()
        self._room.set()
        if self._exchange is not None:
            self._exchange.disconnect()
        else:
            self._ended(self)

    # ---- requests

    def _take(self, events: list[Event], *, is_progress: bool) -> None:
        for event in events:
            if isinstance(event, RequestHead):
                self._begin(event)
            elif isinstance(event, BadHttp):
                self._refuse(event)
                return
            else:
                assert self._exchange is not None, "a head comes before its body"
                if event is RequestEnd.END:
                    self._exchange.finish_request()
                else:
                    self._exchange.add_body(event)
        self._settle(is_progress=is_progress)

    def _begin(self, head: RequestHead) -> None:
        self._has_served = True
        self._exchange = Exchange(self, self._protocol)
        self._task = self._loop.create_task(self._run(self._exchange, self._scope(head)))
        self._task.add_done_callback(self._app_returned)

    async def _run(self, exchange: Exchange, scope: Scope) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001  # logged with its request
            if exchange.is_over:
                # Apps that are told of a disconnect often end with an exception.
                _log.debug("%s %s: ended after a disconnect", scope["method"], scope["path"], exc_info=error)
            else:
                _log.error("%s %s: the app failed", scope["method"], scope["path"], exc_info=error)
        else:
            if not (exchange.is_over or exchange.is_response_complete):
                _log.error("%s %s: the app returned without a complete response", scope["method"], scope["path"])
        exchange.drop_head()

    def _app_returned(self, task: asyncio.Task[None]) -> None:
        exchange, self._exchange, self._task = self._exchange, None, None
        assert exchange is not None
        if self._is_lost:
            self._ended(self)
        elif self._is_lingering:
            return
        elif not exchange.is_response_complete:
            self._refuse(BadHttp(HTTPStatus.INTERNAL_SERVER_ERROR, "the node's log says why"))
        elif self._protocol.can_be_reused and not self._is_stopping:
            self._take(self._protocol.next_exchange(), is_progress=False)
        elif exchange.is_request_complete and not self._protocol.unparsed_bytes:
            self._connection.close()
        else:
            self._linger()

    def _scope(self, head: RequestHead) -> Scope:
        peer, local = self._connection.peer, self._connection.local
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.http_version,
            "method": head.method,
            "scheme": self._scheme,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": (peer.host, peer.port),
            "server": (local.host, local.port),
        }

    def _refuse(self, refusal: BadHttp) -> None:
        exchange = self._exchange
        if not self._protocol.can_still_respond:
            # Part of the response has been sent: only its missing end can show the peer an error.
            self._connection.abort()
            return
        if exchange is not None:
            exchange.disconnect()
        self.send(self._protocol.refuse(refusal, self._common_headers()))
        self._linger()

    def _linger(self) -> None:
        self._is_lingering = True
        self._set_reading(True)
        self._expect(_Wait.CLOSE)

    # ---- responses (Link)

    def send(self, data: bytes) -> None:
        if data and not self._is_lost:
            self._connection.send([data])
            self._watch_unsent()

    async def drain(self) -> None:
        while self._connection.unsent_bytes > self._limits.max_buffered_bytes and not self._is_lost:
            self._room.clear()
            await self._room.wait()

    def exchange_changed(self) -> None:
        self._settle()

    def common_headers(self) -> Headers:
        headers = self._common_headers()
        if self._is_stopping:
            headers.append((b"connection", b"close"))
        return headers

    def _watch_unsent(self) -> None:
        if self._connection.unsent_bytes and self._write_timer is None and not self._is_lost:
            self._write_timer = self._loop.call_later(self._limits.write_timeout_s, self._write_timed_out)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _write_timed_out(self) -> None:
        _log.info(
            "%s: connection dropped: it has read nothing for %g s", self._connection.peer, self._limits.write_timeout_s
        )
        self._connection.abort()

    # ---- when to read, and for how long

    def _settle(self, *, is_progress: bool = False) -> None:
        """Reads or doesn't, and has the right timer running."""
        if self._is_lost or self._is_lingering:
            return
        exchange, limits = self._exchange, self._limits
        if exchange is None:
            self._set_reading(True)
            if self._protocol.has_begun:
                self._expect(_Wait.HEAD if self._has_served else _Wait.FIRST_REQUEST)
            else:
                self._expect(_Wait.NEXT_REQUEST if self._has_served else _Wait.FIRST_REQUEST)
        elif exchange.is_request_complete:
            self._set_reading(exchange.is_awaited and self._protocol.unparsed_bytes < limits.max_buffered_bytes)
            self._expect(_Wait.NOTHING)
        else:
            has_room = exchange.buffered_bytes < limits.max_buffered_bytes
            self._set_reading(has_room)
            # A peer that waits for 100 Continue is not late either.
            is_due = has_room and not self._protocol.is_awaiting_continue
            self._expect(_Wait.BODY if is_due else _Wait.NOTHING, is_progress=is_progress)

    def _set_reading(self, is_reading: bool) -> None:
        if is_reading is self._is_paused:
            self._is_paused = not is_reading
            if is_reading:
                self._connection.resume_reading()
            else:
                self._connection.pause_reading()

    def _expect(self, wait: _Wait, *, is_progress: bool = False) -> None:
        """Starts the peer's timeout; progress restarts it."""
        if wait is self._wait and not is_progress:
            return
        self._wait = wait
        if self._wait_timer is not None:
            self._wait_timer.cancel()
            self._wait_timer = None
        if wait is not _Wait.NOTHING:
            self._wait_timer = self._loop.call_later(self._timeout_s(wait), self._timed_out, wait)

    def _timeout_s(self, wait: _Wait) -> float:
        limits = self._limits
        return {
            _Wait.FIRST_REQUEST: limits.head_timeout_s,
            _Wait.NEXT_REQUEST: limits.keep_alive_timeout_s,
            _Wait.HEAD: limits.head_timeout_s,
            _Wait.BODY: limits.body_timeout_s,
            _Wait.CLOSE: limits.linger_timeout_s,
        }[wait]

    def _timed_out(self, wait: _Wait) -> None:
        if wait is _Wait.BODY:
            self._refuse(BadHttp(HTTPStatus.REQUEST_TIMEOUT, f"no byte of the body for {self._timeout_s(wait):g} s"))
        elif self._exchange is None and self._protocol.has_begun and not self._is_lingering:
            self._refuse(BadHttp(HTTPStatus.REQUEST_TIMEOUT, f"no complete head within {self._timeout_s(wait):g} s"))
        else:
            self._connection.close()
