"""A connection over a non-blocking socket, on an asyncio or uvloop event loop.

It does not use asyncio's transports: uvloop's have no sendfile, and neither kind receives directly into the frame's
final buffer with a single callback.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cordwood.runtime.disk import DiskError, FileRange
from cordwood.runtime.network import Address, ConnectionLost, Part, Receiver

from .bulk_buffers import BulkBuffers
from .patient_readers import PatientReaders

# Bytes that one connection may send per turn of the loop, so that a fast reader of a long range leaves time for others.
_TURN_BYTES = 1 << 20
# Smaller parts are joined and sent with one plain send, which is faster than writev for them (bench/net.py).
_JOIN_BYTES = 1 << 17
# Ranges up to this size are read and joined, too: 170 bytes take 7 µs then, and 14 with sendfile, which wins from 32
# KiB on.
_READ_BYTES = 1 << 14
# A peer with this many bytes waiting when we read sends in bulk.
_BULK_BYTES = 1 << 15
_PARTS_PER_WRITE = min(512, os.sysconf("SC_IOV_MAX"))
# More data follows at once: the start of a response shares its packet with the range behind it.
_MSG_MORE = getattr(socket, "MSG_MORE", 0)


class SocketConnection:
    """See `Connection`."""

    __slots__ = (
        "_bulk_buffers",
        "_closed",
        "_closing",
        "_fd",
        "_has_bulk_buffer",
        "_is_patient",
        "_loop",
        "_patient_readers",
        "_reading",
        "_receiver",
        "_recv_into",
        "_send",
        "_sock",
        "_unsent",
        "_writing",
        "local",
        "peer",
        "unsent_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        patient_readers: PatientReaders | None = None,
        bulk_buffers: BulkBuffers | None = None,
    ) -> None:
        self.peer = address_of(sock.getpeername())
        self.local = address_of(sock.getsockname())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.unsent_bytes = 0
        self._loop = loop
        self._sock = sock
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._fd = sock.fileno()
        self._unsent: deque[Part] = deque()
        self._patient_readers = patient_readers
        self._is_patient = False
        self._bulk_buffers = bulk_buffers
        self._has_bulk_buffer = False
        self._receiver: Receiver | None = None
        self._reading = False
        self._writing = False
        self._closing = False
        self._closed = False

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            if self._is_patient and self._patient_readers is not None:
                self._patient_readers.remove(self._fd)
            else:
                self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not (self._reading or self._closing):
            assert self._receiver is not None, "started"
            self._reading = True
            if self._is_patient and self._patient_readers is not None:
                self._patient_readers.add(self._fd, partial(self._on_readable, self._receiver))
            else:
                self._loop.add_reader(self._fd, self._on_readable, self._receiver)

    def set_patient(self, is_patient: bool) -> None:
        if is_patient != self._is_patient and self._patient_readers is not None:
            was_reading = self._reading
            self.pause_reading()
            self._is_patient = is_patient
            if was_reading:
                self.resume_reading()

    def send(self, parts: Sequence[Part]) -> None:
        if self._closing:
            return
        size = sum(map(len, parts))
        # Fast path: small parts that the socket accepts at once.
        if not self._unsent and size <= _JOIN_BYTES:
            data: Any = None
            sent = 0
            try:
                data = _joined(parts, size)
                if data is not None:
                    sent = self._send(data)
            except (BlockingIOError, InterruptedError):
                pass
            except (OSError, DiskError) as error:
                self._fail_soon(error)
                return
            if sent == size:
                return
            if data is not None:
                parts = (memoryview(data)[sent:],)
                size -= sent
        self._unsent.extend(parts)
        self.unsent_bytes += size
        if not self._writing:
            self._send_unsent()

    def close(self) -> None:
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._unsent:
            self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _on_readable(self, receiver: Receiver) -> None:
        try:
            count = self._recv_into(receiver.buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not count:
            self._end(None)
            return
        if count >= _BULK_BYTES and self._bulk_buffers is not None and not self._has_bulk_buffer:
            self._has_bulk_buffer = self._bulk_buffers.take(self._sock)
        receiver.received(count)
        # uvloop calls only once for a socket with an error, even if there are bytes to read before it, so ask for the
        # error explicitly. That takes about a microsecond.
        if not self._closed and (number := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            self._read_rest(receiver)
            self._end(OSError(number, os.strerror(number)))

    def _read_rest(self, receiver: Receiver) -> None:
        """Reads what remains of a connection that the peer has closed, as far as it is wanted."""
        try:
            while self._reading and (count := self._recv_into(receiver.buffer())):
                receiver.received(count)
        except OSError:
            return

    def _on_writable(self) -> None:
        before = self.unsent_bytes
        self._send_unsent()
        if self.unsent_bytes < before and not self._closed and self._receiver is not None:
            self._receiver.sent()

    def _send_unsent(self) -> None:
        try:
            self._send_for_a_turn()
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, DiskError) as error:
            # The peer or a file has disappeared: its size was already sent, so the response cannot be completed.
            self._fail_soon(error)
            return
        if self._unsent and not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)
        elif not self._unsent:
            self._stop_writing()
            if self._closing:
                self._end(None)

    def _send_for_a_turn(self) -> None:
        unsent = self._unsent
        allowed = _TURN_BYTES
        while unsent and allowed > 0:
            first = unsent[0]
            sent = self._send_range(first, allowed) if isinstance(first, FileRange) else self._send_buffers()
            allowed -= sent
            self.unsent_bytes -= sent

    def _send_range(self, first: FileRange, allowed: int) -> int:
        wanted = first.length
        if wanted == 0:
            self._unsent.popleft()
            return 0
        sent = os.sendfile(self._fd, first.file.fileno(), first.position, min(wanted, allowed))
        if sent == 0:
            raise OSError(f"{first.file.path} ends before byte {first.position + wanted}")
        if sent == wanted:
            self._unsent.popleft()
        else:
            self._unsent[0] = FileRange(first.file, first.position + sent, wanted - sent)
        return sent

    def _send_buffers(self) -> int:
        """Sends the bytes before the next range, with one writev."""
        unsent = self._unsent
        buffers: list[Any] = []
        flags = 0
        for part in unsent:
            if isinstance(part, FileRange):
                flags = _MSG_MORE
                break
            buffers.append(part)
            if len(buffers) == _PARTS_PER_WRITE:
                break
        sent = left = self._sock.sendmsg(buffers, (), flags)
        for buffer in buffers:
            if left < len(buffer):
                unsent[0] = memoryview(buffer)[left:]
                break
            left -= len(buffer)
            unsent.popleft()
        return sent

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _fail_soon(self, error: Exception) -> None:
        """Reports a send failure to the owner from the loop, not within its own call of `send`."""
        self._closing = True
        # A peer that closed the connection may have responded before, and its responses matter. A live peer, for which
        # a file is missing, could continue forever.
        if not isinstance(error, ConnectionError):
            self.pause_reading()
        self._stop_writing()
        self._unsent.clear()
        self.unsent_bytes = 0
        self._loop.call_soon(self._end_for, error)

    def _end_for(self, error: Exception) -> None:
        if self._receiver is not None:
            self._read_rest(self._receiver)
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self.pause_reading()
        self._stop_writing()
        self._closing = self._closed = True
        self._unsent.clear()
        self.unsent_bytes = 0
        self._sock.close()
        if self._has_bulk_buffer and self._bulk_buffers is not None:
            self._bulk_buffers.give_back()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(None if error is None else ConnectionLost(f"connection to {self.peer}: {reason_of(error)}"))


def _joined(parts: Sequence[Any], size: int) -> Any:
    """Joins small parts into one buffer; None if they include ranges that should not be read."""
    if len(parts) == 1 and parts[0].__class__ is bytes:
        return parts[0]
    if FileRange not in map(type, parts):
        return parts[0] if len(parts) == 1 else b"".join(parts)
    if size > _READ_BYTES:
        return None
    data = b"".join([part.read() if part.__class__ is FileRange else part for part in parts])
    if len(data) != size:
        raise OSError(f"a file ends {size - len(data)} bytes before a range of it")
    return data


def address_of(name: Any) -> Address:
    host: str = name[0]
    # An IPv4 peer of a dual-stack socket: use its IPv4 form, so that it counts as one address.
    return Address(host.removeprefix("::ffff:"), name[1])


def reason_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        # asyncio replaces the system's error text. Negative numbers belong to the resolver.
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
