"""The Clock port."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that only go forward."""

    def sleep(self, seconds: float) -> None:
        """Blocks the calling thread: for jobs that run in a thread of their own."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Without a call of ours around it: it is asked twice for each request that is measured.
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
