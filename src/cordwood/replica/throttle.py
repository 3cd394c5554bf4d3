"""Limits on replication (KIP-73): how many bytes a second a broker sends to followers, or fetches as one. They hold for
the replicas that a topic's `leader.` and `follower.replication.throttled.replicas` name.

A replica in sync is never held up: it would leave the in-sync set, and producers would notice.
"""

from __future__ import annotations

from cordwood.runtime.clock import Clock

# As much may go through at once as in this time.
_BURST_S = 1.0
# With a rate of 0 nothing goes through until that is changed.
_LOOK_AGAIN_MS = 1_000


class ReplicationThrottle:
    """A token bucket. It may get into debt: the size of a fetch is unknown before it arrives."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._tokens = bytes_per_second * _BURST_S
        self._filled_s = clock.monotonic()

    def limit(self, bytes_per_second: int) -> None:
        """Changes the rate, from here on."""
        if bytes_per_second != self._rate:
            self._rate = bytes_per_second
            self._tokens = bytes_per_second * _BURST_S
            self._filled_s = self._clock.monotonic()

    def record(self, size: int) -> None:
        self._fill()
        self._tokens -= size

    @property
    def is_exceeded(self) -> bool:
        self._fill()
        return self._tokens <= 0

    @property
    def resumes_in_ms(self) -> int:
        """The time until the limit is no longer exceeded; 0 if it isn't."""
        self._fill()
        if self._tokens > 0:
            return 0
        return 1 + int(-self._tokens * 1000 / self._rate) if self._rate else _LOOK_AGAIN_MS

    def _fill(self) -> None:
        now_s = self._clock.monotonic()
        self._tokens = min(self._rate * _BURST_S, self._tokens + (now_s - self._filled_s) * self._rate)
        self._filled_s = now_s
