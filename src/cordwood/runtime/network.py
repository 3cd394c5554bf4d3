"""The Network port: byte streams to and from peers.

A `Connection` delivers bytes into buffers that its owner, a `Receiver`, provides, and sends lists of parts: bytes-like
objects and `FileRange`s, which are sent without reading them. Framing happens above, in `net`, so that a simulated
network runs the same framing as a real one. Everything belongs to one thread, that of the event loop.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from .disk import Buffer
from .tls import ClientTls, ServerTls

# Bytes-like, or a FileRange; typed as in `wire`, which does not know files.
Part = Buffer | Sized


class NetworkError(Exception):
    """Communication with a peer failed; the text says why."""


class ListenProblem(Enum):
    """Reasons why an address cannot be listened on."""

    PORT_TAKEN = "port taken"
    NO_PERMISSION = "no permission"
    ADDRESS_NOT_LOCAL = "address not local"
    HOST_UNKNOWN = "host unknown"
    OTHER = "other"


class CannotListen(NetworkError):
    def __init__(self, host: str, port: int, cause: str, problem: ListenProblem = ListenProblem.OTHER) -> None:
        super().__init__(f"cannot listen on {Address(host or '*', port)}: {cause}")
        self.host = host
        self.port = port
        self.problem = problem


class CannotConnect(NetworkError):
    """`is_refused`: the host has answered, and the port is closed."""

    def __init__(self, host: str, port: int, cause: str, *, is_refused: bool = False) -> None:
        super().__init__(f"cannot connect to {Address(host, port)}: {cause}")
        self.is_refused = is_refused


class ConnectionLost(NetworkError):
    """The connection is lost; pending requests may or may not have been executed."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """-1 leaves a buffer's size to the operating system, which adapts it to the connection's speed."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    listen_backlog: int = 50
    # The buffer size of an accepted connection once its peer sends faster than it is read; -1: unchanged.
    bulk_receive_buffer_bytes: int = -1


class Receiver(Protocol):
    """The owner of a connection. `buffer` and `received` are called in alternation, with nothing in between."""

    def buffer(self) -> memoryview | bytearray:
        """The buffer for the next bytes; never empty."""

    def received(self, count: int) -> None:
        """`count` bytes were written to the start of `buffer()`."""

    def sent(self) -> None:
        """Some unsent bytes were sent."""

    def lost(self, error: ConnectionLost | None) -> None:
        """The last call: the connection is closed. `error` is None after an orderly close by either side."""


class Connection(Protocol):
    @property
    def peer(self) -> Address: ...

    @property
    def local(self) -> Address: ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes passed to `send` that have not been sent yet, file ranges included."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The verified certificate of a TLS peer, if it presented one, as `ssl.SSLSocket.getpeercert` returns it."""

    def start(self, receiver: Receiver) -> None:
        """Starts delivery. Called once; nothing is read before."""

    def send(self, parts: Sequence[Part]) -> None:
        """Sends what the socket accepts, in order, and queues the rest. Never blocks; never raises because of the peer.

        Senders watch `unsent_bytes` and wait for `Receiver.sent`.
        """

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None:
        """Resumes delivery, later in the loop, never within this call."""

    def set_patient(self, is_patient: bool) -> None:
        """Allows incoming bytes to be delivered some milliseconds late if that saves the node work."""

    def close(self) -> None:
        """Stops reading, sends the unsent bytes, then closes."""

    def abort(self) -> None:
        """Closes at once and drops unsent bytes. Calls `Receiver.lost` before it returns."""


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """The address it listens on, with the real port if 0 was requested."""

    def pause(self) -> None:
        """Stops accepting: new peers wait in the operating system's queue."""

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    async def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Connection], None],
        tls: ServerTls | None = None,
        options: SocketOptions | None = None,
    ) -> Listener:
        """`accept` starts or aborts each new connection, before a TLS handshake. "" listens on every address, IPv4 and
        IPv6. Raises `CannotListen`."""

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        """Connects, including the TLS handshake, if any. Raises `CannotConnect`."""
