"""Primitives for sharing between threads, for packages that do not use threads themselves."""

import threading
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

Lock = threading.Lock

# A signal that arrives just before a thread blocks does not interrupt the wait: Python handles it only afterwards. So
# no wait lasts longer than this at a time.
_SIGNALS_SEEN_EVERY_S = 0.5


class Inbox(SimpleQueue[T]):
    """A queue that one thread waits on and others fill. Ctrl-C interrupts the wait."""

    def next(self) -> T:
        while True:
            try:
                return self.get(timeout=_SIGNALS_SEEN_EVERY_S)
            except Empty:
                continue


class Event(threading.Event):
    """An event. Ctrl-C interrupts a wait without a timeout."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        while not super().wait(_SIGNALS_SEEN_EVERY_S):
            pass
        return True


def current_thread_id() -> int:
    return threading.get_ident()


def current_thread_name() -> str:
    return threading.current_thread().name
