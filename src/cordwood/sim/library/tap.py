"""Observes a library client's connections from outside: the responding node, requests and responses.

An application cannot see when its heartbeats are answered, or what is committed by itself; the checks need to know.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from struct import Struct
from typing import Any

from cordwood.runtime.network import Address, Connection, Listener, Network, Part, Receiver, SocketOptions
from cordwood.runtime.network import ConnectionLost as Lost
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.sim.clients.client import Run
from cordwood.wire.frames import decode_request, decode_response
from cordwood.wire.schema import Request

_SIZE = Struct(">i")
_START = Struct(">hhi")


class Watch:
    """Hears of the requests that it wants to hear of, and of their answers. `sent_s`: when the request was sent."""

    wanted: Collection[type[Request[Any]]] = ()

    def asked(self, request: Request[Any]) -> None: ...

    def answered(self, request: Request[Any], response: Any, sent_s: float) -> None: ...


class Tap:
    """A `Network` that a client connects with. `incarnation`: of the node whose answer has come last."""

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
    ) -> "Connection":
        connection = await self._host.connect(host, port, tls, options)
        # Nothing can have been answered on it yet, so an older one cannot answer on it.
        return _TappedConnection(connection, self._run.start_at(host), self, self._watch, self._run)


class _TappedConnection:
    def __init__(self, connection: Connection, incarnation: int, tap: Tap, watch: Watch, run: Run) -> None:
        self._connection = connection
        self._incarnation = incarnation
        self._tap = tap
        self._watch = watch
        self._run = run
        self._wanted = {request.api_key: request for request in watch.wanted}
        self._out, self._in = _Frames(), _Frames()
        # By correlation id, of what is watched.
        self._awaited: dict[int, tuple[Request[Any], int, float]] = {}
        self._receiver: Receiver | None = None
        self._buffer: memoryview | bytearray = bytearray()

    @property
    def peer(self) -> Address:
        return self._connection.peer

    @property
    def local(self) -> Address:
        return self._connection.local

    @property
    def unsent_bytes(self) -> int:
        return self._connection.unsent_bytes

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self._connection.peer_certificate

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._connection.start(self)

    def send(self, parts: Sequence[Part]) -> None:
        if self._wanted:
            for part in parts:
                assert isinstance(part, bytes | bytearray | memoryview), "clients send no files"
                for frame in self._out.add(part):
                    self._asked(frame)
        self._connection.send(parts)

    def pause_reading(self) -> None:
        self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._connection.resume_reading()

    def set_patient(self, is_patient: bool) -> None:
        self._connection.set_patient(is_patient)

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    # ---- as the receiver of the connection within

    def buffer(self) -> memoryview | bytearray:
        assert self._receiver is not None
        self._buffer = self._receiver.buffer()
        return self._buffer

    def received(self, count: int) -> None:
        assert self._receiver is not None
        self._tap.incarnation = self._incarnation
        if self._wanted:
            for frame in self._in.add(bytes(self._buffer[:count])):
                self._answered(frame)
        self._receiver.received(count)

    def sent(self) -> None:
        assert self._receiver is not None
        self._receiver.sent()

    def lost(self, error: Lost | None) -> None:
        assert self._receiver is not None
        self._receiver.lost(error)

    # ---- what is watched

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
