"""What is to be decided when its time has come, unless something happens before. Part of a shard's state."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any

from cordwood.runtime.clock import Clock

from .decision import Decision

# Taken with the shard's state, as any decision.
Alarm = Callable[[Any], Decision[Any]]


class Timers:
    """Keyed, so that setting one again moves it. Moving one later, as each heartbeat does, costs no more than a
    look-up: its place in the queue is put right when its old time comes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: dict[Hashable, tuple[float, Alarm]] = {}
        # (when it is looked at, a number that keeps the order of equal times, key); at least one entry per alarm, not
        # later than the alarm.
        self._queue: list[tuple[float, int, Hashable]] = []
        self._looked_at: dict[Hashable, float] = {}
        self._count = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._alarms

    def __len__(self) -> int:
        return len(self._alarms)

    def after(self, key: Hashable, delay_ms: float, alarm: Alarm) -> None:
        """The alarm is raised so much later, in place of the one that the key had."""
        at = self._clock.monotonic() + delay_ms / 1000
        self._alarms[key] = (at, alarm)
        queued = self._looked_at.get(key)
        if queued is None or at < queued:
            self._enqueue(key, at)

    def postpone(self, key: Hashable, delay_ms: float) -> bool:
        """Moves the alarm of a key to so much from now. False if it has none."""
        entry = self._alarms.get(key)
        if entry is None:
            return False
        self.after(key, delay_ms, entry[1])
        return True

    def clear(self, key: Hashable) -> None:
        self._alarms.pop(key, None)

    @property
    def next_at(self) -> float | None:
        """When to look for what is due, in seconds of the monotonic clock."""
        return self._queue[0][0] if self._queue else None

    @property
    def count(self) -> int:
        """How many times something was queued so far."""
        return self._count

    def take_due(self, queued_by: int | None = None) -> tuple[Hashable, Alarm] | None:
        """The next alarm whose time has come; it is not set any more. None also where the next one was not among the
        first `queued_by` in the queue: what an alarm sets for at once has to wait its turn."""
        now = self._clock.monotonic()
        while self._queue and self._queue[0][0] <= now:
            if queued_by is not None and self._queue[0][1] > queued_by:
                return None
            looked_at, _, key = heappop(self._queue)
            if self._looked_at.get(key) != looked_at:
                # Moved forward since: it stands further up as well.
                continue
            del self._looked_at[key]
            entry = self._alarms.get(key)
            if entry is None:
                continue
            at, alarm = entry
            if at > now:
                self._enqueue(key, at)
                continue
            del self._alarms[key]
            return key, alarm
        return None

    def _enqueue(self, key: Hashable, at: float) -> None:
        self._count += 1
        self._looked_at[key] = at
        heappush(self._queue, (at, self._count, key))
