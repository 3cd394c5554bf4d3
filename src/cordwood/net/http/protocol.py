"""HTTP/1.1 from bytes to requests and from responses to bytes, one exchange after the other. Sans-IO.

h11 parses and frames; this module adds limits on sizes, the request target, and error responses:

    for event in protocol.receive(data): ...        # RequestHead, bytes…, RequestEnd; or Refusal, the last one
    protocol.respond(200, headers, b"hello")        # bytes to send
    if protocol.can_be_reused: protocol.next_exchange()
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

import h11

from .limits import HttpLimits

Headers = list[tuple[bytes, bytes]]

_CONTENT_LENGTH = b"content-length"
_TRANSFER_ENCODING = b"transfer-encoding"


class RequestHead(NamedTuple):
    method: str
    path: str
    raw_path: bytes
    query: bytes
    # Names in lower case.
    headers: Headers
    http_version: str


class RequestEnd(Enum):
    """The request is complete."""

    END = "end"


class BadHttp(NamedTuple):
    """The request cannot be served; nothing after it can be read."""

    status: HTTPStatus
    reason: str


Event = RequestHead | bytes | RequestEnd | BadHttp


class _Unservable(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.event = BadHttp(status, reason)


class HttpProtocol:
    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, limits.max_head_bytes)
        self._body_bytes = 0
        self._has_failed = False
        # The response has no body even if the app sends one: HEAD, 204, 304.
        self._is_bodiless = False

    # Requests

    def receive(self, data: bytes) -> list[Event]:
        """Parses up to the end of the current request; what follows it is kept for the next exchange."""
        if self._has_failed:
            return []
        self._h11.receive_data(data)
        return self._events()

    def next_exchange(self) -> list[Event]:
        """Starts over on the same connection, with the received part of the next request."""
        self._h11.start_next_cycle()
        self._body_bytes = 0
        return self._events()

    @property
    def has_begun(self) -> bool:
        """True if part of the next request's head has arrived."""
        return self._h11.their_state is h11.IDLE and bool(self.unparsed_bytes)

    @property
    def unparsed_bytes(self) -> int:
        return len(self._h11.trailing_data[0])

    @property
    def is_awaiting_continue(self) -> bool:
        """True if the peer waits for `100 Continue` before it sends the body (`Expect: 100-continue`)."""
        return self._h11.they_are_waiting_for_100_continue

    @property
    def can_be_reused(self) -> bool:
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    def _events(self) -> list[Event]:
        events: list[Event] = []
        try:
            while True:
                event = self._h11.next_event()
                if isinstance(event, h11.Request):
                    events.append(self._head(event))
                elif isinstance(event, h11.Data):
                    events.append(self._body(bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    events.append(RequestEnd.END)
                else:
                    # NEED_DATA or PAUSED: ConnectionClosed needs an end of file, which never gets here.
                    return events
        except _Unservable as error:
            events.append(error.event)
        except h11.RemoteProtocolError as error:
            events.append(BadHttp(HTTPStatus(error.error_status_hint), str(error)))
        self._has_failed = True
        return events

    def _head(self, request: h11.Request) -> RequestHead:
        headers = list(request.headers)
        # h11 measures heads that arrive in pieces. A long one that arrives at once must not fare better.
        size = len(request.method) + len(request.target) + sum(len(name) + len(value) + 4 for name, value in headers)
        if size > self._limits.max_head_bytes:
            raise _Unservable(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"request line and headers may have at most {self._limits.max_head_bytes} bytes",
            )
        lengths = [value for name, value in headers if name == _CONTENT_LENGTH]
        if lengths and any(name == _TRANSFER_ENCODING for name, _ in headers):
            # RFC 9112, 6.3: probably request smuggling.
            raise _Unservable(HTTPStatus.BAD_REQUEST, "Content-Length and Transfer-Encoding exclude each other")
        if lengths and int(lengths[0]) > self._limits.max_body_bytes:
            raise self._body_too_large()
        self._is_bodiless = request.method == b"HEAD"
        raw_path, query = _split_target(request.method, request.target)
        return RequestHead(
            request.method.decode("ascii"),
            unquote(raw_path.decode("ascii")),
            raw_path,
            query,
            headers,
            request.http_version.decode("ascii"),
        )

    def _body(self, data: bytes) -> bytes:
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.max_body_bytes:
            raise self._body_too_large()
        return data

    def _body_too_large(self) -> _Unservable:
        return _Unservable(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {self._limits.max_body_bytes} bytes"
        )

    # Responses. An app that breaks HTTP's rules gets h11's LocalProtocolError.

    def continue_(self) -> bytes:
        """`100 Continue`."""
        return self._h11.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def check_head(self, status: int, headers: Headers) -> None:
        """Raises if no response can have these."""
        h11.Response(status_code=status, headers=headers)

    def respond(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, *, more: bool) -> bytes:
        """The head and the first of the body. A body that is complete here gets its length; one that follows in pieces
        without a declared length is chunked."""
        headers = list(headers)
        is_empty = status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        names = {name.lower() for name, _ in headers}
        if not (more or is_empty or _CONTENT_LENGTH in names or _TRANSFER_ENCODING in names):
            headers.append((_CONTENT_LENGTH, str(len(body)).encode()))
        self._is_bodiless |= is_empty
        head = self._h11.send(h11.Response(status_code=status, headers=headers, reason=_phrase(status)))
        return head + self.body(body, more=more)

    def body(self, data: bytes, *, more: bool) -> bytes:
        out = self._h11.send(h11.Data(data=data)) if data and not self._is_bodiless else b""
        return out if more else out + self._h11.send(h11.EndOfMessage())

    @property
    def can_still_respond(self) -> bool:
        """True if no response has been started."""
        return self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    def refuse(self, refusal: BadHttp, headers: Headers) -> bytes:
        """A whole response; the connection ends with it."""
        body = f"{refusal.status.value} {refusal.status.phrase}: {refusal.reason}\n".encode()
        own = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        return self.respond(refusal.status, [*headers, *own], body, more=False)


def _split_target(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request target (RFC 9112, 3.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target, b""
    scheme, separator, rest = target.partition(b"://")
    if separator and scheme.lower() in (b"http", b"https"):
        # A proxy's form of request. Only the part after the authority counts.
        path_at = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
        target = rest[path_at:]
        if not target.startswith(b"/"):
            target = b"/" + target
    if not target.startswith(b"/"):
        raise _Unservable(HTTPStatus.BAD_REQUEST, "the request target must be a path: /metrics, for example")
    path, _, query = target.partition(b"?")
    return path, query


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""
