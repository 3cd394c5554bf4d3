"""Sockets whose bytes may wait briefly: they are polled together, at most once per period.

A wake-up costs more than most of the work it triggers: the CPU caches are cold, and the peer has to be woken as well.
For many sockets with occasional data, handling a batch at a time costs a fraction of that
(bench/coordinators/groups.py: idle groups). Data after a quiet period is handled at once, so a few such sockets neither
wait nor need a timer.
"""

import asyncio
import select
from collections.abc import Callable

PERIOD_S = 0.02


class PatientReaders:
    """A separate epoll, which the loop watches like a socket; Linux only (`are_there`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._looked_at = float("-inf")
        # Either the loop watches the epoll, or, while data keeps arriving, a timer runs.
        self._is_watched = False
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def are_there() -> bool:
        return hasattr(select, "epoll")

    def add(self, descriptor: int, read: Callable[[], None]) -> None:
        """Calls `read` when there is data to read or an error to handle."""
        self._epoll.register(descriptor, select.EPOLLIN)
        self._readers[descriptor] = read
        if self._timer is None:
            self._watch()

    def remove(self, descriptor: int) -> None:
        del self._readers[descriptor]
        self._epoll.unregister(descriptor)
        if not self._readers:
            self._unwatch()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(self._epoll.fileno(), self._on_ready)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._epoll.fileno())

    def _on_ready(self) -> None:
        wait_s = self._looked_at + PERIOD_S - self._loop.time()
        if wait_s <= 0:
            self._look()
        else:
            self._unwatch()
            self._timer = self._loop.call_later(wait_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        found = self._look()
        if not self._readers:
            return
        if found:
            # More will come: watching would wake the loop for the first of them.
            self._timer = self._loop.call_later(PERIOD_S, self._on_time)
        else:
            self._watch()

    def _look(self) -> bool:
        self._looked_at = self._loop.time()
        ready = self._epoll.poll(0)
        for descriptor, _ in ready:
            # An earlier reader may have closed it.
            read = self._readers.get(descriptor)
            if read is not None:
                read()
        return bool(ready)
