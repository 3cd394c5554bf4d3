"""Limits the I/O rate of a job in a thread."""

from cordwood.runtime.clock import Clock

# Kafka's throttler measures its rate in windows of this length, so that a slow stretch does not compensate for a fast
# one.
_THROTTLE_WINDOW_S = 0.3
_SHORTEST_SLEEP_S = 0.01
# Between two sleeps a job checks whether it was stopped.
_LONGEST_SLEEP_S = 0.5


class Throttle:
    """`log.cleaner.io.max.bytes.per.second`, for reads and writes together."""

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._window_start = clock.monotonic()
        self._window_bytes = 0
        self.is_stopped = False

    def spend(self, size: int) -> None:
        self._window_bytes += size
        elapsed = self._clock.monotonic() - self._window_start
        while (ahead := self._window_bytes / self._rate - elapsed) > _SHORTEST_SLEEP_S and not self.is_stopped:
            self._clock.sleep(min(ahead, _LONGEST_SLEEP_S))
            elapsed = self._clock.monotonic() - self._window_start
        if elapsed > _THROTTLE_WINDOW_S:
            self._window_start += elapsed
            self._window_bytes = 0
