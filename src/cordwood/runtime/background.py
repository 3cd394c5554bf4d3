"""An event loop on its own thread, for callers that have none.

background = BackgroundLoop("cordwood-producer")
loop = background.start()
loop.call_soon_threadsafe(...)
background.stop()

The thread is a daemon: it does not keep the process alive. Use `at_exit` to finish work before the interpreter exits.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from cordwood.runtime.event_loop import loop_factory


class BackgroundLoop:
    """Starts once and stops once. Does not survive a fork: the child process has no such thread."""

    def __init__(self, name: str) -> None:
        self.forked = False
        """True in a forked process: the thread has stayed in the other one."""
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: Exception | None = None
        self._started = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> asyncio.AbstractEventLoop:
        """Raises the error if the loop cannot run."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        _started.add(self)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        assert self._loop is not None
        return self._loop

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Cancels the remaining tasks, and returns when the thread has ended."""
        self.stop_soon()
        self.join()

    def join(self) -> None:
        """Returns when the thread has ended; another caller stops it."""
        if self._thread is not None and not self.forked and not self.is_current_thread:
            self._thread.join()

    def stop_soon(self) -> None:
        if self._loop is None or self.forked:
            return
        # A closed loop raises RuntimeError.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        try:
            loop = loop_factory()()
        except Exception as failure:  # noqa: BLE001  any failure is reported to the parent
            self._failure = failure
            self._started.set()
            return
        asyncio.set_event_loop(loop)
        self._loop = loop
        loop.call_soon(self._started.set)
        try:
            loop.run_forever()
        finally:
            _finish(loop)


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        # Needs a thread, which the interpreter does not start while it exits.
        with suppress(RuntimeError):
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def at_exit(callback: Callable[[], None]) -> Callable[[], None]:
    """Calls `callback` when the interpreter exits, while background threads still run. Call the returned function to
    cancel."""
    atexit.register(callback)
    return lambda: atexit.unregister(callback)


_started: "weakref.WeakSet[BackgroundLoop]" = weakref.WeakSet()


def _mark_forked() -> None:
    for background in _started:
        background.forked = True


os.register_at_fork(after_in_child=_mark_forked)
