"""Metrics as text, in Prometheus's format 0.0.4.

Implemented here instead of with prometheus-client: one thread owns the node, so a counter is an int without a lock
(which makes measuring a request several times cheaper), and most values are read from the node on demand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts of values at or below each bound, in seconds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def lines(self, name: str, labels: Labels) -> Iterable[str]:
        bounds = [*map(str, self._bounds), "+Inf"]
        for bound, count in zip(bounds, accumulate(self._counts), strict=True):
            yield _line(f"{name}_bucket", (*labels, ("le", bound)), count)
        yield _line(f"{name}_sum", labels, self._sum)
        yield _line(f"{name}_count", labels, self.count)


class Exposition:
    """One page; metric families in the order in which they are written."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def counter(self, name: str, about: str, *samples: tuple[Labels, float]) -> None:
        self._family(name, "counter", about, samples)

    def gauge(self, name: str, about: str, *samples: tuple[Labels, float]) -> None:
        self._family(name, "gauge", about, samples)

    def more(self, name: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Adds samples to the family written last."""
        self._lines += [_line(name, labels, value) for labels, value in samples]

    def histogram(self, name: str, about: str, *samples: tuple[Labels, Histogram]) -> None:
        self._begin(name, "histogram", about)
        for labels, histogram in samples:
            self._lines += histogram.lines(name, labels)

    def summary(self, name: str, about: str, count: int, total: float) -> None:
        """Without quantiles: how many values there were, and their sum."""
        self._begin(name, "summary", about)
        self._lines += [_line(f"{name}_sum", (), total), _line(f"{name}_count", (), count)]

    def encode(self) -> bytes:
        return "\n".join([*self._lines, ""]).encode()

    def _family(self, name: str, kind: str, about: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._begin(name, kind, about)
        self.more(name, samples)

    def _begin(self, name: str, kind: str, about: str) -> None:
        self._lines.append(f"# HELP {name} {about}")
        self._lines.append(f"# TYPE {name} {kind}")


def _line(name: str, labels: Labels, value: float) -> str:
    if not labels:
        return f"{name} {value}"
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
