"""The Clock port."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Blocks the calling thread; for jobs that run in a separate thread."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Not wrapped in a method: it is called twice for each measured request.
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
