"""The Network port: streams of bytes to and from peers.

A `Connection` hands its owner, a `Receiver`, bytes where the owner wants them, and sends lists of parts: bytes-like
objects and `FileRange`s, which need not be read to be sent. Frames are cut above, in `net`, so that a simulated network
runs the same framing as a real one. All of it belongs to one thread, that of the event loop.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from .disk import Buffer
from .tls import ClientTls, ServerTls

# Bytes-like, or a FileRange; spelled as `wire` spells it, which does not know of files.
Part = Buffer | Sized


class NetworkError(Exception):
    """Something between us and a peer failed; the text says what."""


class ListenProblem(Enum):
    """Why an address cannot be listened on."""

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
    def __init__(self, host: str, port: int, cause: str) -> None:
        super().__init__(f"cannot connect to {Address(host, port)}: {cause}")


class ConnectionLost(NetworkError):
    """The connection is gone; what was not answered may or may not have been done."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """-1 leaves a buffer to the operating system, which then sizes it by the connection's speed."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    listen_backlog: int = 50
    # What an accepted connection gets instead, once its peer sends faster than it is read; -1: no more than others.
    bulk_receive_buffer_bytes: int = -1


class Receiver(Protocol):
    """Who owns a connection. `buffer` and `received` are called in turn, with nothing in between."""

    def buffer(self) -> memoryview | bytearray:
        """Where the next bytes go; never empty."""

    def received(self, count: int) -> None:
        """So many bytes were put at the start of `buffer()`."""

    def sent(self) -> None:
        """Some of what was unsent has gone out."""

    def lost(self, error: ConnectionLost | None) -> None:
        """The last call: the connection is gone. None when it was closed in order, by either side."""


class Connection(Protocol):
    @property
    def peer(self) -> Address: ...

    @property
    def local(self) -> Address: ...

    @property
    def unsent_bytes(self) -> int:
        """What was given to `send` and has not gone out, ranges included."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The verified certificate of a TLS peer that showed one, as `ssl.SSLSocket.getpeercert` has it."""

    def start(self, receiver: Receiver) -> None:
        """Begins to deliver. Called once; until then nothing is read."""

    def send(self, parts: Sequence[Part]) -> None:
        """Sends in order what it can and keeps the rest: never blocks, never raises for what the peer did.

        Whoever sends looks at `unsent_bytes` and waits for `Receiver.sent`.
        """

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None:
        """Delivers again, later in the loop, never within this call."""

    def set_patient(self, is_patient: bool) -> None:
        """Whether what comes in may be delivered some milliseconds late, if that saves the node work."""

    def close(self) -> None:
        """Reads no more, sends what is unsent, then closes."""

    def abort(self) -> None:
        """Closes at once; what is unsent is dropped. `Receiver.lost` follows before it returns."""


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """Where it listens: the real port if 0 was asked for."""

    def pause(self) -> None:
        """Accepts nobody: new peers wait in the operating system's queue."""

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
        """`accept` starts or aborts each connection it is given, before a TLS handshake. "" is every address, IPv4 and
        IPv6. Raises `CannotListen`."""

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        """Returns after the TLS handshake, if any. Raises `CannotConnect`."""
