"""**ConnectionWrapper**: a connection around another, to observe or change some of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

from cordwood.runtime.network import Address, Connection, ConnectionLost, Part, Receiver


class ConnectionWrapper:
    """Hands everything on in both directions: a `Connection` for its owner, and the `Receiver` of the one within."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._receiver: Receiver | None = None

    # As a connection

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

    # As a receiver

    def buffer(self) -> memoryview | bytearray:
        assert self._receiver is not None
        return self._receiver.buffer()

    def received(self, count: int) -> None:
        assert self._receiver is not None
        self._receiver.received(count)

    def sent(self) -> None:
        assert self._receiver is not None
        self._receiver.sent()

    def lost(self, error: ConnectionLost | None) -> None:
        assert self._receiver is not None
        self._receiver.lost(error)
