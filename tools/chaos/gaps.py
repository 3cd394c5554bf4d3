"""The longest time without an acknowledgement."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """In seconds: without any acknowledgement, and without one of the partition that had to wait longest."""

    overall: float
    worst_partition: float


class GapMeter:
    """Measures from `begin` to `end`; acknowledgements come from any thread. A partition counts all of that time, also
    if nothing of it is acknowledged before the end."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._lock = threading.Lock()
        self._last: list[float] = []
        self._longest: list[float] = []
        self._last_of_any = 0.0
        self._longest_of_any = 0.0
        self._runs = False

    def begin(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._last = [now] * self._partitions
            self._longest = [0.0] * self._partitions
            self._last_of_any, self._longest_of_any = now, 0.0
            self._runs = True

    def acknowledge(self, partition: int) -> None:
        with self._lock:
            if self._runs:
                self._take(partition, time.monotonic())

    def end(self) -> Gap:
        with self._lock:
            now = time.monotonic()
            for partition in range(self._partitions):
                self._longest[partition] = max(self._longest[partition], now - self._last[partition])
            self._longest_of_any = max(self._longest_of_any, now - self._last_of_any)
            self._runs = False
            return Gap(self._longest_of_any, max(self._longest))

    def _take(self, partition: int, now: float) -> None:
        self._longest[partition] = max(self._longest[partition], now - self._last[partition])
        self._last[partition] = now
        self._longest_of_any = max(self._longest_of_any, now - self._last_of_any)
        self._last_of_any = now
