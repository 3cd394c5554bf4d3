"""Observes a library client's connections from outside: the responding node, requests and responses.

An application cannot see the answers to its heartbeats, or automatic commits; the checks need both.
"""

from collections.abc import Callable, Collection, Sequence
from struct import Struct
from typing import Any

from cordwood.runtime.network import Connection, Listener, Network, Part, SocketOptions
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.runtime.transport.connection_wrapper import ConnectionWrapper
from cordwood.sim.clients.client import Run
from cordwood.wire.frames import decode_request, decode_response
from cordwood.wire.schema import Request

_SIZE = Struct(">i")
_START = Struct(">hhi")


class Watch:
    """Gets the requests that it is interested in, and their answers. `sent_s`: when the request was sent."""

    wanted: Collection[type[Request[Any]]] = ()

    def asked(self, request: Request[Any]) -> None: ...

    def answered(self, request: Request[Any], response: Any, sent_s: float) -> None: ...


class Tap:
    """A `Network` for a client. `incarnation`: that of the node whose answer came last."""

    def __init__(self, run: Run, host: Network, watch: Watch | None = None) -> None:
        self.incarnation = 0
        self._run = run
        self._host = host
        self._watch = watch if watch is not None else Watch()

    async def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Connection], None],
        tls: ServerTls | None = None,
        options: SocketOptions | None = None,
    ) -> Listener:
        return await self._host.listen(host, port, accept, tls, options)

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        connection = await self._host.connect(host, port, tls, options)
        # It has had no answers yet, so none can come from an older incarnation.
        return _TappedConnection(connection, self._run.start_at(host), self, self._watch, self._run)


class _TappedConnection(ConnectionWrapper):
    def __init__(self, connection: Connection, incarnation: int, tap: Tap, watch: Watch, run: Run) -> None:
        super().__init__(connection)
        self._incarnation = incarnation
        self._tap = tap
        self._watch = watch
        self._run = run
        self._wanted = {request.api_key: request for request in watch.wanted}
        self._out, self._in = _Frames(), _Frames()
        # Watched requests by correlation id.
        self._awaited: dict[int, tuple[Request[Any], int, float]] = {}
        self._buffer: memoryview | bytearray = bytearray()

    def send(self, parts: Sequence[Part]) -> None:
        if self._wanted:
            for part in parts:
                assert isinstance(part, bytes | bytearray | memoryview), "clients send no files"
                for frame in self._out.add(part):
                    self._asked(frame)
        super().send(parts)

    def buffer(self) -> memoryview | bytearray:
        self._buffer = super().buffer()
        return self._buffer

    def received(self, count: int) -> None:
        self._tap.incarnation = self._incarnation
        if self._wanted:
            for frame in self._in.add(bytes(self._buffer[:count])):
                self._answered(frame)
        super().received(count)

    # ---- watched requests

    def _asked(self, frame: bytes) -> None:
        api_key, version, correlation_id = _START.unpack_from(frame)
        if api_key in self._wanted:
            _, request = decode_request(frame)
            self._awaited[correlation_id] = (request, version, self._run.now_s)
            self._watch.asked(request)

    def _answered(self, frame: bytes) -> None:
        awaited = self._awaited.pop(_SIZE.unpack_from(frame)[0], None)
        if awaited is not None:
            request, version, sent_s = awaited
            _, response = decode_response(type(request).response, version, frame)
            self._watch.answered(request, response, sent_s)


class _Frames:
    """Whole frames out of pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, piece: bytes | bytearray | memoryview) -> list[bytes]:
        self._bytes += piece
        frames = []
        while len(self._bytes) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                break
            frames.append(bytes(self._bytes[_SIZE.size : end]))
            del self._bytes[:end]
        return frames
