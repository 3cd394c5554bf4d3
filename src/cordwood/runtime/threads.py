"""What threads share, for rooms that know no threads of their own."""

import threading
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

Lock = threading.Lock

# A signal that comes when a thread is about to wait, and does not wait yet, does not end the wait: Python sees it when
# the wait is over. So nobody waits for longer than this at a time.
_SIGNALS_SEEN_EVERY_S = 0.5


class Inbox(SimpleQueue[T]):
    """What one thread waits for and others put in. Waiting ends with Ctrl-C."""

    def next(self) -> T:
        while True:
            try:
                return self.get(timeout=_SIGNALS_SEEN_EVERY_S)
            except Empty:
                continue


class Event(threading.Event):
    """Waiting without a timeout ends with Ctrl-C."""

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
