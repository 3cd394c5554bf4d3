"""The client's side of a connection: requests pipelined, responses matched by correlation id.

channel = await Channel.open(network, "localhost", 9092, client_id="tools")
response = await channel.request(ApiVersionsRequest(), version=3)
channel.close()
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Any

from cordwood.net.framing import FrameReader, Scratch
from cordwood.runtime.network import (
    CannotConnect,
    Connection,
    ConnectionLost,
    Network,
    NetworkError,
    Part,
    SocketOptions,
)
from cordwood.runtime.tls import ClientTls
from cordwood.wire.frames import decode_response, encode_request_parts
from cordwood.wire.schema import Request, ResponseT

_log = logging.getLogger(__name__)

_RESPONSE_MAX_BYTES = 0x7FFF_FFFF
_MAX_UNSENT_BYTES = 1 << 20
_CORRELATION_IDS = 1 << 31
_INT32 = Struct(">i")
_FIRST_BYTES = 16


class RequestTimedOut(NetworkError):
    """No response in time; the request may or may not have been done. The connection stays open."""


class BadResponse(NetworkError):
    """The peer does not speak the protocol; the connection is closed."""


class Channel:
    """A connection to one broker. `open` makes it; it serves until `lost_error` is set."""

    def __init__(self, connection: Connection, client_id: str | None, timeout_s: float) -> None:
        self.peer = connection.peer
        # The error that ended the connection.
        self.lost_error: NetworkError | None = None
        self._connection = connection
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._scratch = Scratch()
        self._reader = FrameReader(_RESPONSE_MAX_BYTES, self._scratch)
        self._next_id = 0
        # In the order of their requests, which is that of the responses. Those that timed out stay until theirs comes.
        self._awaited: deque[tuple[int, asyncio.Future[bytearray]]] = deque()
        self._room = asyncio.Event()
        self._lost = asyncio.Event()
        connection.start(self)

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str | None = None,
        tls: ClientTls | None = None,
        options: SocketOptions | None = None,
        timeout_s: float = 30.0,
    ) -> "Channel":
        """Raises `CannotConnect`; `timeout_s` applies to connecting and, by default, to each request."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = await network.connect(host, port, tls, options)
        except TimeoutError as error:
            raise CannotConnect(host, port, f"no connection within {timeout_s:g} s") from error
        return cls(connection, client_id, timeout_s)

    @property
    def in_flight(self) -> int:
        return len(self._awaited)

    async def request(self, request: Request[ResponseT], version: int, timeout_s: float | None = None) -> ResponseT:
        """Raises `ConnectionLost`, `RequestTimedOut`, `BadResponse`, or `DecodeError` for a body that does not read."""
        correlation_id = self._take_id()
        parts = encode_request_parts(request, version, correlation_id, self._client_id)
        frame = await self.exchange(parts, correlation_id, timeout_s)
        answer: Any = type(request).response
        _, response = decode_response(answer, version, frame)
        return response  # type: ignore[no-any-return]

    @property
    def has_room(self) -> bool:
        """True while the unsent bytes are within the limit."""
        return self._connection.unsent_bytes <= _MAX_UNSENT_BYTES

    async def room(self) -> None:
        """Waits for it. Raises why the connection was lost."""
        await self._wait_for_room()

    def start(self, request: Request[Any], version: int) -> "asyncio.Future[bytearray]":
        """Sends at once, for callers that check `has_room` first: the future is of the response's frame, without a
        timeout."""
        correlation_id = self._take_id()
        parts = encode_request_parts(request, version, correlation_id, self._client_id)
        response: asyncio.Future[bytearray] = self._loop.create_future()
        if self.lost_error is not None:
            response.set_exception(_again(self.lost_error))
        else:
            self._awaited.append((correlation_id, response))
            self._connection.send(parts)
        return response

    def start_only(self, request: Request[Any], version: int) -> None:
        """Like `start`, for requests without a response. Raises the reason if the connection was lost."""
        if self.lost_error is not None:
            raise _again(self.lost_error)
        self._connection.send(encode_request_parts(request, version, self._take_id(), self._client_id))

    async def send_only(self, request: Request[Any], version: int) -> None:
        """A request that has no response: Produce with acks=0."""
        await self._wait_for_room()
        self.start_only(request, version)

    async def exchange(self, parts: Sequence[Part], correlation_id: int, timeout_s: float | None = None) -> bytearray:
        """A whole request, encoded already, for its response's frame."""
        timeout_s = timeout_s if timeout_s is not None else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_for_room()
                response: asyncio.Future[bytearray] = self._loop.create_future()
                self._awaited.append((correlation_id, response))
                self._connection.send(parts)
                return await response
        except TimeoutError as error:
            raise RequestTimedOut(f"no response from {self.peer} within {timeout_s:g} s") from error

    @property
    def first_bytes(self) -> bytes:
        """The first bytes received instead of a response, which may identify the peer."""
        return bytes(self._scratch.data[:_FIRST_BYTES]).rstrip(b"\0")

    async def until_lost(self) -> None:
        """Waits until the connection has ended; `lost_error` has the reason."""
        await self._lost.wait()

    def close(self) -> None:
        """Sends what is still unsent; requests without a response fail with `ConnectionLost`."""
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    # ---- called by the connection (Receiver)

    def buffer(self) -> memoryview:
        return self._reader.buffer()

    def received(self, count: int) -> None:
        for frame in self._reader.received(count):
            if not self._take_response(frame):
                return
        if self._reader.bad is not None:
            self._give_up(f"{self.peer} sent {self._reader.bad}")

    def sent(self) -> None:
        if self._connection.unsent_bytes <= _MAX_UNSENT_BYTES:
            self._room.set()

    def lost(self, error: ConnectionLost | None) -> None:
        if self.lost_error is None:
            self.lost_error = error or ConnectionLost(f"the connection to {self.peer} was closed")
        for _, response in self._awaited:
            if not response.done():
                response.set_exception(_again(self.lost_error))
        self._awaited.clear()
        self._room.set()
        self._lost.set()

    def _take_response(self, frame: bytearray) -> bool:
        correlation_id = _INT32.unpack_from(frame)[0] if len(frame) >= _INT32.size else None
        expected, response = self._awaited[0] if self._awaited else (None, None)
        if response is None or correlation_id != expected:
            self._give_up(f"{self.peer} answered request {correlation_id} where {expected} was next")
            return False
        self._awaited.popleft()
        if not response.done():
            response.set_result(frame)
        return True

    def _give_up(self, reason: str) -> None:
        _log.warning("Connection closed: %s", reason)
        self.lost_error = BadResponse(reason)
        self._connection.abort()

    def _take_id(self) -> int:
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) % _CORRELATION_IDS
        return correlation_id

    async def _wait_for_room(self) -> None:
        """Returns with the connection fit to be sent on."""
        while self.lost_error is None and not self.has_room:
            self._room.clear()
            await self._room.wait()
        if self.lost_error is not None:
            raise _again(self.lost_error)


def _again(error: NetworkError) -> NetworkError:
    """A new exception for each waiting caller: a shared one would gather all their tracebacks."""
    return type(error)(*error.args)
