"""The memory for queued records: bounded, and granted in request order."""

from collections import deque
from collections.abc import Callable


class Reservation:
    """A place in the queue for memory. Used by `Accumulator.append`, or cancelled."""

    __slots__ = ("_granted", "_pool", "is_granted", "size_bytes")

    def __init__(self, pool: "BufferPool", size_bytes: int, granted: Callable[[], object]) -> None:
        self.size_bytes = size_bytes
        self.is_granted = False
        self._pool: BufferPool | None = pool
        self._granted = granted

    def cancel(self) -> None:
        """Leaves the queue, or returns granted memory. Does nothing if it is used or cancelled."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool._cancelled(self)

    def use(self) -> int:
        """Transfers the reservation to the caller."""
        assert self.is_granted
        assert self._pool is not None, "a reservation can be used only once"
        self._pool = None
        return self.size_bytes

    def _grant(self) -> None:
        self.is_granted = True
        self._granted()


class BufferPool:
    """Accounts for memory only: buffers grow as they are filled, each within its grant."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._line: deque[Reservation] = deque()

    @property
    def is_short(self) -> bool:
        """True if anyone is waiting for memory."""
        return bool(self._line)

    def take(self, size_bytes: int) -> bool:
        """False if there is not enough, or others have waited longer."""
        if self._line or size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def reserve(self, size_bytes: int, granted: Callable[[], object]) -> Reservation:
        """`granted` is called when its turn has come and there is enough; possibly at once."""
        assert size_bytes <= self.total_bytes
        reservation = Reservation(self, size_bytes, granted)
        self._line.append(reservation)
        self._serve()
        return reservation

    def give(self, size_bytes: int) -> None:
        self.free_bytes += size_bytes
        assert self.free_bytes <= self.total_bytes, "more memory was released than reserved"
        self._serve()

    def _serve(self) -> None:
        while self._line and self._line[0].size_bytes <= self.free_bytes:
            reservation = self._line.popleft()
            self.free_bytes -= reservation.size_bytes
            reservation._grant()

    def _cancelled(self, reservation: Reservation) -> None:
        if reservation.is_granted:
            self.give(reservation.size_bytes)
        else:
            self._line.remove(reservation)
            # The next one may need less.
            self._serve()
