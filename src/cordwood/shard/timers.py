"""Timers of a shard: decisions that are due at a time, unless cancelled before. Part of the shard's state."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any

from cordwood.runtime.clock import Clock

from .decision import Decision

# Taken with the shard's state, as any decision.
Alarm = Callable[[Any], Decision[Any]]


class _Timer:
    __slots__ = ("alarm", "at", "looked_at")

    def __init__(self) -> None:
        # None if it is not set.
        self.alarm: Alarm | None = None
        self.at = 0.0
        # When its place in the queue comes up: not later than the alarm.
        self.looked_at = float("inf")


class Timers:
    """Keyed, so that setting one again moves it. Postponing one, as each heartbeat does, costs only a look-up: its
    queue entry is corrected at its old time."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        # Requested by the current decision, and raised as soon as that is in the state: neither may be visible without
        # the other.
        self.follow_ups: list[tuple[Hashable, Alarm]] = []
        self._watchers: list[Callable[[], None]] = []
        # Those that have a place in the queue.
        self._timers: dict[Hashable, _Timer] = {}
        # (when it is looked at, a number that keeps the order of equal times, key); at least one entry per timer.
        self._queue: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def watch(self, watcher: Callable[[], None]) -> None:
        """Calls the watcher when a timer is moved forward: also outside of decisions, after which the shard checks the
        time."""
        self._watchers.append(watcher)

    def __contains__(self, key: Hashable) -> bool:
        timer = self._timers.get(key)
        return timer is not None and timer.alarm is not None

    def __len__(self) -> int:
        return sum(timer.alarm is not None for timer in self._timers.values())

    def after(self, key: Hashable, delay_ms: float, alarm: Alarm) -> None:
        """Sets the alarm after a delay, replacing the key's previous one."""
        at = self._monotonic() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer()
        timer.alarm = alarm
        timer.at = at
        if at < timer.looked_at:
            self._enqueue(key, timer)

    def postpone(self, key: Hashable, delay_ms: float) -> bool:
        """Moves the alarm of a key to so much from now. False if it has none."""
        timer = self._timers.get(key)
        if timer is None or timer.alarm is None:
            return False
        timer.at = at = self._monotonic() + delay_ms / 1000
        if at < timer.looked_at:
            # Rare: a session that was made shorter.
            self._enqueue(key, timer)
            for watcher in self._watchers:
                watcher()
        return True

    def clear(self, key: Hashable) -> None:
        timer = self._timers.get(key)
        if timer is not None:
            timer.alarm = None

    @property
    def next_at(self) -> float | None:
        """The time of the next alarm, in seconds of the monotonic clock."""
        return self._queue[0][0] if self._queue else None

    @property
    def count(self) -> int:
        """Number of timers queued so far."""
        return self._count

    def take_due(self, queued_by: int | None = None) -> tuple[Hashable, Alarm] | None:
        """Removes and returns the next alarm that is due. None also if it was queued after `queued_by`: alarms set for
        immediately by other alarms wait their turn."""
        now = self._monotonic()
        while self._queue and self._queue[0][0] <= now:
            if queued_by is not None and self._queue[0][1] > queued_by:
                return None
            looked_at, _, key = heappop(self._queue)
            timer = self._timers.get(key)
            if timer is None or timer.looked_at != looked_at:
                # Moved forward since: another entry is further up.
                continue
            alarm = timer.alarm
            if alarm is not None and timer.at > now:
                self._enqueue(key, timer)
                continue
            del self._timers[key]
            if alarm is not None:
                return key, alarm
        return None

    def _enqueue(self, key: Hashable, timer: _Timer) -> None:
        self._count += 1
        timer.looked_at = timer.at
        heappush(self._queue, (timer.at, self._count, key))
