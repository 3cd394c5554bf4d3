"""TLS over any Connection, through `ssl.MemoryBIO`.

There is no zero-copy here, by design: outgoing bytes are encrypted in this process. File ranges are read piece by piece
as the underlying connection accepts them, and at most `_AHEAD_BYTES` of ciphertext are ever ahead of the socket.
"""

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cordwood.runtime.disk import DiskError, FileRange
from cordwood.runtime.network import Address, Connection, ConnectionLost, Part, Receiver

_PIECE_BYTES = 1 << 16
_AHEAD_BYTES = 1 << 18
# Bytes encrypted for one connection per turn of the loop.
_TURN_BYTES = 1 << 20


class _Arrivals(threading.local):
    """A buffer for ciphertext to be passed to OpenSSL. It holds nothing between calls, so all connections of a thread
    share one; each thread has its own."""

    buffer = memoryview(b"")

    def room(self) -> memoryview:
        if not self.buffer:
            # Not before there is a connection: many nodes never have one.
            self.buffer = memoryview(bytearray(1 << 16))
        return self.buffer


_arrivals = _Arrivals()


class TlsConnection:
    """See `Connection`. The handshake starts with `start`, or with `handshake` if a caller awaits it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        below: Connection,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        self._loop = loop
        self._below = below
        self._arrived = ssl.MemoryBIO()
        self._departing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._arrived, self._departing, server_side=server_side, server_hostname=server_hostname
        )
        self._unsent: deque[Part] = deque()
        self._queued_bytes = 0
        self._receiver: Receiver | None = None
        self._secure = False
        self._secured: asyncio.Future[None] | None = None
        self._begun = False
        self._paused = False
        self._delivering = False
        self._closing = False
        self._closed = False

    @property
    def peer(self) -> Address:
        return self._below.peer

    @property
    def local(self) -> Address:
        return self._below.local

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes + self._below.unsent_bytes

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self._tls.getpeercert() if self._secure else None

    async def handshake(self) -> None:
        """Raises `ConnectionLost` if the handshake fails."""
        self._secured = self._loop.create_future()
        self._begin()
        await self._secured

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if not self._begun:
            self._begin()
        elif self._secure:
            self._loop.call_soon(self._deliver)

    def send(self, parts: Sequence[Part]) -> None:
        if self._closing:
            return
        self._unsent.extend(parts)
        self._queued_bytes += sum(map(len, parts))
        self._encrypt()

    def pause_reading(self) -> None:
        self._paused = True
        self._below.pause_reading()

    def set_patient(self, is_patient: bool) -> None:
        self._below.set_patient(is_patient)

    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._below.resume_reading()
            # Data that has arrived but is not decrypted yet does not make the socket readable.
            self._loop.call_soon(self._deliver)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._below.pause_reading()
        self._finish()

    def abort(self) -> None:
        self._closing = True
        self._below.abort()

    # ---- callbacks of the underlying connection (Receiver)

    def buffer(self) -> memoryview:
        return _arrivals.room()

    def received(self, count: int) -> None:
        self._arrived.write(_arrivals.buffer[:count])
        if self._secure:
            self._deliver()
        else:
            self._shake_hands()

    def sent(self) -> None:
        before = self._queued_bytes
        self._encrypt()
        if self._closing:
            self._finish()
        elif self._receiver is not None and (self._queued_bytes < before or not before):
            self._receiver.sent()

    def lost(self, error: ConnectionLost | None) -> None:
        if self._closed:
            return
        self._closed = self._closing = True
        self._unsent.clear()
        self._queued_bytes = 0
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(
                error or ConnectionLost(f"{self.peer} closed the connection during the TLS handshake")
            )
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(error)

    # ---- the handshake

    def _begin(self) -> None:
        self._begun = True
        self._below.start(self)
        self._shake_hands()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._depart()
            return
        except ssl.SSLError as error:
            self._fail(f"TLS handshake with {self.peer} failed: {_reason(error)}")
            return
        self._secure = True
        self._depart()
        if self._secured is not None and not self._secured.done():
            self._secured.set_result(None)
        self._encrypt()
        self._deliver()

    # ---- in

    def _deliver(self) -> None:
        if self._delivering or not self._secure:
            return
        self._delivering = True
        try:
            while self._receiver is not None and not (self._paused or self._closing):
                buffer = self._receiver.buffer()
                count: Any = self._tls.read(len(buffer), buffer)  # a number, given a buffer
                if not count:
                    self._below.abort()
                    return
                self._receiver.received(count)
        except ssl.SSLWantReadError:
            # A read may trigger a reply (a key update).
            self._depart()
        except ssl.SSLZeroReturnError:
            self._below.abort()
        except ssl.SSLError as error:
            self._fail(f"TLS connection to {self.peer}: {_reason(error)}")
        finally:
            self._delivering = False

    # ---- out

    def _encrypt(self) -> None:
        if not self._secure:
            return
        below = self._below
        allowed = _TURN_BYTES
        while self._unsent and below.unsent_bytes < _AHEAD_BYTES:
            if allowed <= 0:
                # The socket accepts it as fast as it is produced, so it will not report when there is room.
                self._loop.call_soon(self.sent)
                return
            try:
                piece = self._next_piece()
            except (OSError, DiskError) as error:
                # The owner is notified by the loop, not within its own call of `send`.
                self._closing = True
                self._loop.call_soon(self._fail, f"response to {self.peer} cannot be finished: {error}")
                return
            self._queued_bytes -= len(piece)
            allowed -= len(piece)
            if piece:
                self._tls.write(piece)
                self._depart()

    def _next_piece(self) -> bytes:
        """Up to `_PIECE_BYTES`: joins small parts, because each write becomes a TLS record."""
        unsent = self._unsent
        pieces: list[Any] = []
        space = _PIECE_BYTES
        while unsent and space:
            part = unsent[0]
            size = len(part)
            if isinstance(part, FileRange):
                piece: Any = part.file.read(part.position, min(size, space))
                if len(piece) < min(size, space):
                    raise OSError(f"{part.file.path} ends before byte {part.position + size}")
                rest: Part = FileRange(part.file, part.position + len(piece), size - len(piece))
            elif size > space:
                view = memoryview(part)  # type: ignore[arg-type]  # a part is a range or bytes-like
                piece, rest = view[:space], view[space:]
            else:
                piece, rest = part, b""
            if len(rest):
                unsent[0] = rest
            else:
                unsent.popleft()
            pieces.append(piece)
            space -= len(piece)
        return b"".join(pieces)

    def _depart(self) -> None:
        if self._departing.pending:
            self._below.send([self._departing.read()])

    # ---- the end

    def _finish(self) -> None:
        """Once everything is encrypted: sends close_notify and lets the underlying connection send the rest."""
        if self._unsent and self._secure:
            return
        if self._secure:
            # Does not wait for the peer's close_notify.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._depart()
        self._below.close()

    def _fail(self, reason: str) -> None:
        # OpenSSL's alert is sent if the socket accepts it at once.
        self._depart()
        self.lost(ConnectionLost(reason))
        self._below.abort()


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate cannot be verified: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
