"""A bridge between an application's threads and a client's event loop.

portal = Portal("cordwood-consumer") records = portal.run(consumer.poll())

`run` runs a coroutine on the loop's thread while the calling thread waits. In the meantime the calling thread may get
work: a coroutine that awaits `in_caller(callback, ...)` runs the callback in the waiting thread, which may call `run`
again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cordwood.client.errors import Closed, IllegalState, TimedOut
from cordwood.runtime.background import BackgroundLoop
from cordwood.runtime.threads import Inbox, Lock

T = TypeVar("T")


class Portal:
    """Any number of threads may be in `run` at once. The loop's thread starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.background = BackgroundLoop(name)
        # Guards the fields below: nothing is scheduled on a loop that was told to stop, where it would never run.
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        # Waiting calls, the innermost of nested ones last. Used on the loop's thread only.
        self._calls: list[_Call[Any]] = []
        self._call_came = asyncio.Event()

    def run(
        self,
        work: Coroutine[Any, Any, T],
        timeout: float | None = None,
        undelivered: Callable[[T], None] | None = None,
    ) -> T:
        """Runs the coroutine and returns or raises its result. Cancels it after `timeout` seconds and raises
        `TimedOut`; Ctrl-C cancels it, too. If that is too late, calls `undelivered` with its result. Raises `Closed`,
        and `IllegalState` in a forked process."""
        call = _Call(work, timeout)
        try:
            self.check_thread()
        except IllegalState:
            work.close()
            raise
        try:
            self.post(self._begin, call)
            return call.outcome()
        except BaseException:
            if not call.is_over:
                self._withdraw(call)
            if undelivered is not None:
                call.give_back(undelivered)
            raise
        finally:
            call.forget()

    def check_thread(self) -> None:
        """Raises `IllegalState` on the loop's own thread: a call there would deadlock."""
        if self.background.is_current_thread:
            raise IllegalState(f"a callback on {self._name}'s own thread cannot block on it: that would deadlock")

    def check_fork(self) -> None:
        """Raises `IllegalState` in a forked process, which lacks the loop's thread."""
        if self.background.forked:
            raise IllegalState(
                f"{self._name} was created before this process was forked, and its thread does not exist here; "
                "create one in each process"
            )

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Schedules a call on the loop's thread without waiting. Raises like `run`."""
        self.check_fork()
        with self._lock:
            if self._closed:
                raise Closed(f"{self._name} is closed")
            if self._loop is None:
                self._loop = self.background.start()
            self._loop.call_soon_threadsafe(callback, *args)

    async def in_caller(self, callback: Callable[..., T], *args: object) -> T:
        """Runs `callback` in the thread whose call awaits this. If there is none, or it has ended, uses the next
        waiting thread."""
        call = _current.get(None)
        while call is None or call.is_over:
            call = await self._waiting_call()
        result: T = await call.run_there(callback, args)
        return result

    def close(self) -> None:
        """Ends the loop's thread. Calls waiting in `run` are cancelled."""
        if self.background.forked:
            return
        with self._lock:
            self._closed = True
        self.background.stop()

    def abandon(self, last_work: Coroutine[Any, Any, None]) -> None:
        """For a client that is garbage-collected without `close`: does the last work, then ends the thread, without
        waiting."""

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(last_work)
            task.add_done_callback(lambda done: self.background.stop_soon())

        try:
            self.post(begin)
        except IllegalState:
            last_work.close()
            return
        with self._lock:
            self._closed = True

    def _begin(self, call: "_Call[Any]") -> None:
        self._calls.append(call)
        self._call_came.set()
        call.begin(self._end)

    def _end(self, call: "_Call[Any]") -> None:
        self._calls.remove(call)

    def _withdraw(self, call: "_Call[Any]") -> None:
        """Called by a thread that stops waiting: returns when the coroutine has ended. An interrupt may have come at
        any step, so the coroutine may or may not be on the loop."""
        try:
            self.post(call.cancel)
        except Exception:  # noqa: BLE001  closed, forked, or without a loop
            # No more work is scheduled; what is scheduled ends with the thread.
            self.background.join()
            call.drop()
        else:
            call.wait_out()

    async def _waiting_call(self) -> "_Call[Any]":
        while not self._calls:
            self._call_came.clear()
            await self._call_came.wait()
        return self._calls[-1]


_current: "ContextVar[_Call[Any]]" = ContextVar("cordwood_call")


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    """Inbox message: the coroutine has ended."""

    task: "asyncio.Task[T]"


@dataclass(frozen=True, slots=True)
class _Work:
    """Inbox message: work for the waiting thread."""

    callback: Callable[..., Any]
    args: tuple[object, ...]
    result: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop

    def do(self) -> None:
        """Exceptions such as Ctrl-C go to the thread that works, after the coroutine got them."""
        try:
            value = self.callback(*self.args)
        except BaseException as error:
            self._answer(_fail, self.result, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._answer(_succeed, self.result, value)

    def refuse(self) -> None:
        self._answer(self.result.cancel)

    def _answer(self, callback: Callable[..., object], *args: object) -> None:
        # If the callback has closed the client, the loop is closed and the result is not needed.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, *args)


class _Call(Generic[T]):
    """A thread waiting for a coroutine."""

    def __init__(self, work: Coroutine[Any, Any, T], timeout: float | None) -> None:
        self.is_over = False
        self._work = work
        self._timeout = timeout
        self._task: asyncio.Task[T] | None = None
        # None if it never began.
        self._inbox: Inbox[_Done[T] | _Work | None] = Inbox()

    # ---- on the loop's thread

    def begin(self, over: "Callable[[_Call[T]], None]") -> None:
        token = _current.set(self)
        try:
            # The task's context is a copy of this one.
            work = self._work if self._timeout is None else _within(self._work, self._timeout)
            self._task = asyncio.get_running_loop().create_task(work)
        finally:
            _current.reset(token)

        def finish(task: "asyncio.Task[T]") -> None:
            self.is_over = True
            over(self)
            self._inbox.put(_Done(task))

        self._task.add_done_callback(finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self.drop()
            self._inbox.put(None)

    async def run_there(self, callback: Callable[..., Any], args: tuple[object, ...]) -> Any:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        self._inbox.put(_Work(callback, args, result, loop))
        return await result

    # ---- on the waiting thread

    def outcome(self) -> T:
        while isinstance(message := self._inbox.next(), _Work):
            message.do()
        assert message is not None
        try:
            return message.task.result()
        except asyncio.CancelledError:
            raise Closed("closed while this call was pending") from None

    def drop(self) -> None:
        """Prevents the coroutine from starting, unless it has."""
        if self._task is None:
            self.is_over = True
            self._work.close()

    def wait_out(self) -> None:
        """Waits until the cancelled coroutine has ended."""
        while isinstance(message := self._inbox.next(), _Work):
            message.refuse()

    def forget(self) -> None:
        """Breaks a reference cycle: the task's context knows this call, which would keep its result alive until garbage
        collection."""
        self._task = None

    def give_back(self, undelivered: Callable[[T], None]) -> None:
        """Handles a result that arrived after this thread was interrupted."""
        task = self._task
        if task is not None and not task.cancelled() and task.exception() is None:
            undelivered(task.result())


async def _within(work: Coroutine[Any, Any, T], timeout: float) -> T:
    try:
        async with asyncio.timeout(timeout) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise TimedOut(f"not done within {timeout:g} s") from None
        raise


def _succeed(result: "asyncio.Future[Any]", value: object) -> None:
    if not result.done():
        result.set_result(value)


def _fail(result: "asyncio.Future[Any]", error: BaseException) -> None:
    if result.done():
        return
    if isinstance(error, Exception):
        result.set_exception(error)
    else:
        # KeyboardInterrupt and SystemExit belong to the application; the coroutine is only cancelled.
        result.cancel()
