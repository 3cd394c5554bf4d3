"""A simulated process: everything started in it ends with it, at once and in the middle of anything.

    process = Process("broker", loop)
    task = process.start(main())
    process.kill()            # no callback, timer, task or thread job of its will ever run again

A process is a context variable: callbacks inherit it like any other, so the loop knows the process of each callback.
Outside objects (its connections, its disk) are notified with `when_killed`.
"""

import asyncio
import contextvars
import inspect
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .disk import SimulatedCrash

T = TypeVar("T")

_current: "contextvars.ContextVar[Process | None]" = contextvars.ContextVar("process", default=None)

# How often a coroutine of a dead process may answer its end with another await.
_CLOSE_ATTEMPTS = 100


def process_of(context: contextvars.Context | None = None) -> "Process | None":
    """The process whose code runs now, or would run in `context`; None for the simulation itself."""
    return _current.get() if context is None else context.get(_current)


class Process:
    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.alive = True
        # While it is stopped, as by SIGSTOP: the callbacks that are due.
        self.held: list[asyncio.Handle] | None = None
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)
        self._when_killed: list[Callable[[], None]] = []
        # Strong references: those of a dead process must not end by garbage collection, in an arbitrary context.
        self._tasks: dict[asyncio.Task[Any], contextvars.Context] = {}

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._loop.create_task(main, name=self.name, context=self._context.copy())

    def pause(self) -> None:
        """Suspends it until `resume`: its timers and incoming data wait."""
        if self.held is None:
            self.held = []

    def resume(self) -> None:
        """Runs everything that became due, in that order."""
        held, self.held = self.held or [], None
        for handle in held:
            handle._context.run(self._loop.call_soon, _run_held, handle)  # type: ignore[attr-defined]

    def when_killed(self, callback: Callable[[], None]) -> None:
        self._when_killed.append(callback)

    def kill(self) -> None:
        """May be called from within its own code, which continues until it returns to the loop, without any effect."""
        if not self.alive:
            return
        self.alive = False
        for callback in self._when_killed:
            callback()
        # Not now: one of its coroutines may be running.
        contextvars.Context().run(self._loop.call_soon, self.bury)

    def adopt(self, task: asyncio.Task[Any], context: contextvars.Context) -> None:
        self._tasks[task] = context
        task.add_done_callback(self._forget, context=contextvars.Context())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def bury(self) -> None:
        """Closes its coroutines quietly, here; their actions then have no effect."""
        with warnings.catch_warnings():
            # Coroutines that they had created and not awaited are closed, too.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            for task, context in self._tasks.items():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro(), context)
            self._tasks.clear()


def _run_held(handle: asyncio.Handle) -> None:
    if not handle.cancelled():
        handle._run()


def _close(coroutine: Any, context: contextvars.Context) -> None:
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        # Its arguments may be unstarted coroutines, which would cause warnings when they are collected.
        for held in list(coroutine.cr_frame.f_locals.values()):
            if inspect.iscoroutine(held):
                _close(held, context)
    for _ in range(_CLOSE_ATTEMPTS):
        if coroutine.cr_frame is None:
            break
        try:
            context.run(_innermost(coroutine).close)
        except (SimulatedCrash, Exception):  # noqa: BLE001  # no listener is left
            continue


def _innermost(coroutine: Any) -> Any:
    """From within outwards: one that awaits others as it is closed would otherwise hang."""
    while inspect.iscoroutine(inner := coroutine.cr_await) and inner.cr_frame is not None:
        coroutine = inner
    return coroutine
