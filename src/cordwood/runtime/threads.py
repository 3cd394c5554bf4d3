"""What threads share, for rooms that know no threads of their own."""

import threading
from queue import SimpleQueue

Lock = threading.Lock
Event = threading.Event
Inbox = SimpleQueue
"""What one thread waits for and others put in. Waiting ends with Ctrl-C."""


def current_thread_id() -> int:
    return threading.get_ident()


def current_thread_name() -> str:
    return threading.current_thread().name
