"""Meters for recent rates and sizes; sans-IO."""

from math import inf, nan

# As with Kafka's metrics.sample.window.ms and metrics.num.samples: rates and averages cover the last half to whole
# minute.
_WINDOW_S = 30.0


class Meter:
    """A sum since the start, and its rate. `add` is called for each event, so it is kept short."""

    __slots__ = ("_before", "_now", "_started_s", "total")

    def __init__(self, now_s: float) -> None:
        self.total = 0.0
        self._started_s = now_s
        self._now = 0.0
        self._before: float | None = None

    def add(self, amount: float, now_s: float) -> None:
        if now_s - self._started_s >= _WINDOW_S:
            self._turn(now_s)
        self.total += amount
        self._now += amount

    def rate(self, now_s: float) -> float:
        if now_s - self._started_s >= _WINDOW_S:
            self._turn(now_s)
        elapsed_s = now_s - self._started_s
        if self._before is None:
            return self._now / elapsed_s if elapsed_s > 0 else 0.0
        return (self._before + self._now) / (_WINDOW_S + elapsed_s)

    def _turn(self, now_s: float) -> None:
        windows = int((now_s - self._started_s) / _WINDOW_S)
        self._before = self._now if windows == 1 else 0.0
        self._now = 0.0
        self._started_s += windows * _WINDOW_S


class Distribution:
    """The average and maximum of recent values; NaN if there are none, as in Kafka."""

    __slots__ = ("_before", "_count", "_greatest", "_started_s", "_sum")

    def __init__(self, now_s: float) -> None:
        self._started_s = now_s
        self._count = 0
        self._sum = 0.0
        self._greatest = -inf
        # Count, sum, maximum.
        self._before = (0, 0.0, -inf)

    def add(self, value: float, now_s: float) -> None:
        if now_s - self._started_s >= _WINDOW_S:
            self._turn(now_s)
        self._count += 1
        self._sum += value
        if value > self._greatest:
            self._greatest = value

    def average(self, now_s: float) -> float:
        if now_s - self._started_s >= _WINDOW_S:
            self._turn(now_s)
        count = self._before[0] + self._count
        return (self._before[1] + self._sum) / count if count else nan

    def greatest(self, now_s: float) -> float:
        if now_s - self._started_s >= _WINDOW_S:
            self._turn(now_s)
        return max(self._before[2], self._greatest) if self._before[0] + self._count else nan

    def _turn(self, now_s: float) -> None:
        windows = int((now_s - self._started_s) / _WINDOW_S)
        self._before = (self._count, self._sum, self._greatest) if windows == 1 else (0, 0.0, -inf)
        self._count, self._sum, self._greatest = 0, 0.0, -inf
        self._started_s += windows * _WINDOW_S
