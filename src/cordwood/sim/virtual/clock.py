"""The simulated Clock: that of the loop."""

from .loop import SimLoop

# An arbitrary day, so that times in a trace look realistic.
_EPOCH_MS = 1_700_000_000_000


class SimClock:
    """See `Clock`. Wall time may be set, as an administrator or NTP does; monotonic time continues."""

    def __init__(self, loop: SimLoop, epoch_ms: int = _EPOCH_MS) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms

    def now_ms(self) -> int:
        return self._epoch_ms + int(self._loop.monotonic() * 1000)

    def monotonic(self) -> float:
        return self._loop.monotonic()

    def sleep(self, seconds: float) -> None:
        self._loop.sleep_in_job(seconds)

    def set_back(self, milliseconds: int) -> None:
        """Sets it forward if `milliseconds` is below 0."""
        self._epoch_ms -= milliseconds
