"""One end of a simulated connection: bytes travel in pieces, take time, keep their order, and may never arrive.

Sent data goes into the wire as far as its window allows (the size of socket buffers), and then the sender has no
control over it: a `FileRange` is read when it enters the wire. The rest is unsent.
"""

import contextvars
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cordwood.runtime.disk import DiskError, FileRange
from cordwood.runtime.network import Address, ConnectionLost, Part, Receiver
from cordwood.sim.trace import Trace

from .loop import SimLoop
from .process import Process


@dataclass(frozen=True, slots=True)
class NetworkOdds:
    """The odds of a network's faults. Times are in seconds, and upper limits of random values."""

    delay_s: float = 0.002
    slow: float = 0.02
    """A piece takes"""
    slow_s: float = 0.3
    """instead."""
    split: float = 0.2
    """Splits the data of one send into several pieces."""
    loss: float = 0.0
    """The connection is lost with this piece: data in flight arrives or not, each side notices"""
    notice_s: float = 0.05
    """later, or"""
    late_notice: float = 0.1
    late_notice_s: float = 5.0
    """much later."""
    window_bytes: int = 1 << 16
    """The limit of bytes in flight, or arrived and not read, unless the socket options say otherwise."""


class Ending(Enum):
    """The event that arrives after the last byte."""

    CLOSED = "closed"
    RESET = "reset"


class Wire(Protocol):
    """The state that both ends of all connections of a network share."""

    loop: SimLoop
    source: random.Random
    trace: Trace
    odds: NetworkOdds

    def blocks(self, source: Address, target: Address) -> bool:
        """Returns whether nothing gets from one to the other for now."""


class SimConnection:
    """See `Connection`."""

    other: "SimConnection"

    def __init__(
        self,
        wire: Wire,
        local: Address,
        peer: Address,
        process: Process | None,
        context: contextvars.Context,
        window_bytes: int,
    ) -> None:
        self.local = local
        self.peer = peer
        self.process = process
        self.unsent_bytes = 0
        self.is_patient = False
        self._wire = wire
        self._loop = wire.loop
        self._context = context
        self._window_bytes = window_bytes
        self._receiver: Receiver | None = None
        self._unsent: deque[Part] = deque()
        # On its way to the other side, or there and not read.
        self._in_flight = 0
        # When the last of it arrives: nothing overtakes.
        self._last_arrival = 0.0
        # Data that has arrived and was not read; data held back by a network fault.
        self._inbox: deque[bytes | Ending] = deque()
        self._held: deque[bytes | Ending] = deque()
        self._is_reading = False
        self._read_is_due = False
        self._room_is_due = False
        self._severed = False
        self._closing = False
        self.closed = False

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    def pause_reading(self) -> None:
        self._is_reading = False

    def set_patient(self, is_patient: bool) -> None:
        """Nothing is saved here by being late."""
        self.is_patient = is_patient

    def resume_reading(self) -> None:
        if not self._closing:
            assert self._receiver is not None, "started"
            self._is_reading = True
            self._read_soon()

    def send(self, parts: Sequence[Part]) -> None:
        size = sum(map(len, parts))
        if self._closing:
            return
        if Ending.RESET in self._inbox:
            # It came while reading was paused; a write will report it.
            self._fail_soon("Broken pipe")
            return
        self._unsent.extend(parts)
        self.unsent_bytes += size
        self._transmit()

    def close(self) -> None:
        if self._closing:
            return
        self._is_reading = False
        self._closing = True
        if not self._unsent:
            self._end(None)

    def abort(self) -> None:
        self._end(None)

    # ---- sending

    def _transmit(self) -> None:
        try:
            while self._unsent and self._in_flight < self._window_bytes:
                piece = self._take(self._window_bytes - self._in_flight)
                self.unsent_bytes -= len(piece)
                self._launch_bytes(piece)
        except (OSError, DiskError) as error:
            # A file was deleted: its size is already sent, so the response cannot be repaired.
            self._fail_soon(str(error))
            return
        if self._closing and not self._unsent:
            self._end(None)

    def _take(self, room: int) -> bytes:
        taken = bytearray()
        while self._unsent and room > 0:
            part: Any = self._unsent[0]
            length = min(len(part), room)
            if isinstance(part, FileRange):
                data: bytes | memoryview = FileRange(part.file, part.position, length).read()
                if len(data) < length:
                    raise OSError(f"{part.file.path} ends before byte {part.position + part.length}")
                rest: Part = FileRange(part.file, part.position + length, part.length - length)
            else:
                view = memoryview(part).cast("B")
                data, rest = view[:length], view[length:]
            taken += data
            room -= length
            if len(rest):
                self._unsent[0] = rest
            else:
                self._unsent.popleft()
        return bytes(taken)

    def _launch_bytes(self, data: bytes) -> None:
        source, odds = self._wire.source, self._wire.odds
        while data:
            length = len(data)
            if length > 1 and source.random() < odds.split:
                length = source.randrange(1, length)
            piece, data = data[:length], data[length:]
            if source.random() < odds.loss:
                self._launch(piece[: source.randrange(length + 1)])
                self.lose()
                return
            self._launch(piece)

    def _launch(self, item: bytes | Ending) -> None:
        if self._severed:
            return
        if isinstance(item, bytes):
            if not item:
                return
            self._in_flight += len(item)
        source, odds, other = self._wire.source, self._wire.odds, self.other
        delay = source.random() * (odds.slow_s if source.random() < odds.slow else odds.delay_s)
        self._last_arrival = max(self._last_arrival, self._loop.exact_s + delay)
        self._loop.happen_at(self._last_arrival, other._arrive, item, context=other._context)

    def _room(self) -> None:
        """The other side has read."""
        self._room_is_due = False
        before = self.unsent_bytes
        if self.closed or not before:
            return
        self._transmit()
        if self.unsent_bytes < before and not self.closed and self._receiver is not None:
            self._receiver.sent()

    # ---- receiving

    def _arrive(self, item: bytes | Ending) -> None:
        wire = self._wire
        if self._held or wire.blocks(self.peer, self.local):
            self._held.append(item)
            return
        if isinstance(item, bytes):
            if self.closed:
                # Unread data is answered with a reset, which may overtake data sent before the close.
                self._launch(Ending.RESET)
                return
            wire.trace.note_bytes("deliver", item, str(self.peer), str(self.local))
            self._inbox.append(item)
        elif self.closed:
            return
        else:
            wire.trace.note(item.value, str(self.peer), str(self.local))
            if item is Ending.RESET:
                self._inbox.clear()
                if self._unsent:
                    self._fail_soon("Connection reset by peer")
                    return
            self._inbox.append(item)
        if self._is_reading:
            self._read()

    def release_held(self) -> None:
        """The network is whole again."""
        held, self._held = self._held, deque()
        for item in held:
            self._loop.call_soon(self._arrive, item, context=self._context)

    def _read_soon(self) -> None:
        if self._inbox and not self._read_is_due:
            self._read_is_due = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._read_is_due = False
        if not (self._is_reading and self._inbox):
            return
        item = self._inbox[0]
        if isinstance(item, Ending):
            self._inbox.popleft()
            self._end(None if item is Ending.CLOSED else "Connection reset by peer")
            return
        receiver = self._receiver
        assert receiver is not None, "started"
        buffer = receiver.buffer()
        count = min(len(buffer), len(item))
        buffer[:count] = item[:count]
        if count == len(item):
            self._inbox.popleft()
        else:
            self._inbox[0] = item[count:]
        self.other._was_read(count)
        # It must not keep the owner from resizing the buffer.
        del buffer
        receiver.received(count)
        self._read_soon()

    def _was_read(self, count: int) -> None:
        self._in_flight -= count
        if self._unsent and not self._room_is_due and not self.closed:
            self._room_is_due = True
            delay = self._wire.source.random() * self._wire.odds.delay_s
            self._loop.happen_at(self._loop.exact_s + delay, self._room, context=self._context)

    # ---- the end

    def lose(self) -> None:
        """Breaks the connection: each side notices at its own time, and until then receives data in flight."""
        for end in (self, self.other):
            if not end._severed:
                end._severed = True
                end._hear_of_loss()

    def die(self) -> None:
        """Its process is dead. The operating system tells the other side, or the other side finds out."""
        if self.closed:
            return
        self.closed = self._closing = self._severed = True
        self._unsent.clear()
        self._receiver = None
        if not self.other._severed:
            self.other._severed = True
            self.other._hear_of_loss()

    def _hear_of_loss(self) -> None:
        source, odds = self._wire.source, self._wire.odds
        delay = source.random() * (odds.late_notice_s if source.random() < odds.late_notice else odds.notice_s)
        self._loop.happen_at(self._loop.exact_s + delay, self._arrive_loss, context=self._context)

    def _arrive_loss(self) -> None:
        if not self.closed:
            self._held.clear()
            self._wire.trace.note("lost", str(self.peer), str(self.local))
            self._inbox.clear()
            if self._unsent:
                self._fail_soon("Connection reset by peer")
                return
            self._inbox.append(Ending.RESET)
            if self._is_reading:
                self._read()

    def _fail_soon(self, reason: str) -> None:
        """Sending failed: the owner is notified by the loop, not within its own call of `send`."""
        self._closing = True
        self._is_reading = False
        self._unsent.clear()
        self.unsent_bytes = 0
        self._loop.call_soon(self._end, reason, context=self._context)

    def _end(self, reason: str | None) -> None:
        if self.closed:
            return
        self._launch(Ending.RESET if self._inbox else Ending.CLOSED)
        self._is_reading = False
        self._closing = self.closed = True
        self._unsent.clear()
        self.unsent_bytes = 0
        self._inbox.clear()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(None if reason is None else ConnectionLost(f"connection to {self.peer}: {reason}"))
