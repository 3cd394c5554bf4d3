"""An event loop on a thread of its own, for who has none.

background = BackgroundLoop("cordwood-producer")
loop = background.start()
loop.call_soon_threadsafe(...)
background.stop()

The thread is a daemon: it does not keep a process alive. `at_exit` is for who wants to finish something before that.
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
    """Started once, and stopped once. Not there in a process that was forked from the one that started it."""

    def __init__(self, name: str) -> None:
        self.forked = False
        """Whether this is such a process: the thread has stayed in the other one."""
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: Exception | None = None
        self._started = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> asyncio.AbstractEventLoop:
        """Raises what keeps the loop from running."""
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
        """Cancels what still runs, and returns when the thread has ended."""
        self.stop_soon()
        self.join()

    def join(self) -> None:
        """Returns when the thread, which someone stops, has ended."""
        if self._thread is not None and not self.forked and not self.is_current_thread:
            self._thread.join()

    def stop_soon(self) -> None:
        if self._loop is None or self.forked:
            return
        # A loop that has been closed says so.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        try:
            loop = loop_factory()()
        except Exception as failure:  # noqa: BLE001  whatever it is, who started us is to hear of it
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
        # Wants a thread, which an interpreter that ends does not start.
        with suppress(RuntimeError):
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def at_exit(callback: Callable[[], None]) -> Callable[[], None]:
    """`callback` is called when the interpreter ends, while background threads still run, unless what is returned was
    called before."""
    atexit.register(callback)
    return lambda: atexit.unregister(callback)


_started: "weakref.WeakSet[BackgroundLoop]" = weakref.WeakSet()


def _mark_forked() -> None:
    for background in _started:
        background.forked = True


os.register_at_fork(after_in_child=_mark_forked)
