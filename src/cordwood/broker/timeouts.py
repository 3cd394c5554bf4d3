"""Timeouts of many pending responses on a few timers: those with the same timeout expire in order."""

from __future__ import annotations

from asyncio import get_running_loop
from typing import Protocol

# Event loops have millisecond resolution, and may fire that much early.
_PRECISION_S = 0.001


class Expiring(Protocol):
    def expired(self) -> None:
        """Called on timeout."""


class Timeouts:
    """A timer per request would cost more than the rest of its waiting; nearly all of them would be cancelled."""

    def __init__(self) -> None:
        # By timeout: the pending responses with their deadlines (the loop's time), and a timer if there are any.
        self._waiting: dict[int, dict[Expiring, float]] = {}

    def start(self, expiring: Expiring, timeout_ms: int) -> None:
        loop = get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        waiting = self._waiting.get(timeout_ms)
        if waiting is None:
            waiting = self._waiting[timeout_ms] = {}
            loop.call_at(deadline, self._expire, timeout_ms)
        waiting[expiring] = deadline

    def stop(self, expiring: Expiring, timeout_ms: int) -> None:
        """Cancels the timeout of an answered request."""
        self._waiting[timeout_ms].pop(expiring, None)

    def _expire(self, timeout_ms: int) -> None:
        loop = get_running_loop()
        waiting = self._waiting[timeout_ms]
        now = loop.time() + _PRECISION_S
        while waiting:
            expiring, deadline = next(iter(waiting.items()))
            if deadline > now:
                loop.call_at(deadline, self._expire, timeout_ms)
                return
            del waiting[expiring]
            expiring.expired()
        del self._waiting[timeout_ms]
