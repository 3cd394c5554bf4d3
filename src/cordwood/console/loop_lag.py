"""Event loop lag: how long a request that arrives at a random moment waits for its turn."""

from __future__ import annotations

import asyncio

from cordwood.runtime.clock import Clock

from .exposition import Histogram

_INTERVAL_S = 0.25
# Timers themselves are about a millisecond late.
_LAGS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    """A timer that records its own delay, four times a second."""

    def __init__(self, clock: Clock) -> None:
        self.lags = Histogram(_LAGS_S)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def stop(self) -> None:
        self._timer.cancel()

    def _schedule(self) -> None:
        self._due = self._clock.monotonic() + _INTERVAL_S
        self._timer = self._loop.call_later(_INTERVAL_S, self._note)

    def _note(self) -> None:
        self.lags.observe(max(0.0, self._clock.monotonic() - self._due))
        self._schedule()
