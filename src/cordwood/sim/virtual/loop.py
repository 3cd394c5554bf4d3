"""An asyncio event loop on virtual time: nothing waits, and the same program runs identically.

    loop = SimLoop(random.Random(seed), Trace())
    result = loop.run_until_complete(main())

When nothing is ready, time jumps to the next timer. Callbacks run in the order in which they were scheduled, timers by
their time and then in that order. There are no sockets, signals, threads or subprocesses: the ports are simulated.
"""

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from cordwood.sim.trace import Trace

from .disk import SimulatedCrash
from .no_system import LoopWithoutSystem
from .process import Process, process_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The duration of one turn, so that timers fire even if code only yields in an endless loop.
_TURN_S = 1e-6
# This many turns without waiting are such an endless loop, which timers don't end.
_TURNS_AWAKE = 1_000_000
# How long a thread's job waits for its thread, and its result for the loop.
_THREAD_S = 0.005
# Rarely something is slow: a disk that syncs, a machine that is short of processors.
_SLOW_THREADS = 0.05
_SLOW_THREAD_S = 0.5
# On a real machine time passes between two readings of a clock, and now and then much of it.
_PAUSED_READINGS = 0.1
_PAUSE_S = 0.003
# uvloop counts in these: its timers come up to half of one too early.
_TICKS_PER_S = 1000


class Deadlock(Exception):
    """The main task waits, and nothing is left that could happen."""


class OutOfTime(Exception):
    """The main task has not ended when the simulation was to."""


class SimLoop(LoopWithoutSystem):
    def __init__(
        self,
        source: random.Random,
        trace: Trace,
        *,
        limit_s: float = float("inf"),
        pauses: random.Random | None = None,
    ) -> None:
        """`limit_s`: a run that takes longer, in virtual time, ends with `OutOfTime`. With `pauses` time is as on a
        machine: some readings of it take some, the loop's own are coarse, and its timers come a little too early."""
        self.limit_s = limit_s
        # Unhandled errors: (message, exception). A run with any has found a bug.
        self.unhandled: list[tuple[str, BaseException | None]] = []
        self._source = source
        self._trace = trace
        self._pauses = pauses
        trace.clock = lambda: self.exact_s
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._sequence = 0
        self._turns_awake = 0
        self._running = False
        self._stopping = False
        self._closed = False
        # How long the job that runs now has slept; None while none does.
        self._job_slept: float | None = None
        self._task_factory: Any = None

    # ---- running

    def run_until_complete(self, future: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        main: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)
        main.add_done_callback(lambda _: self.stop())
        try:
            self.run_forever()
        except BaseException:
            if not main.done():
                self._abandon()
            raise
        if not main.done():
            raise RuntimeError("the loop was stopped before its main task had ended")
        return main.result()

    def run_forever(self) -> None:
        if self._running or self._closed:
            raise RuntimeError("the loop is running, or closed")
        self._running = True
        asyncio._set_running_loop(self)
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._running = self._stopping = False
            asyncio._set_running_loop(None)

    def _turn(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            self._jump()
            self._turns_awake = 0
        self._turns_awake += 1
        if self._turns_awake > _TURNS_AWAKE:
            raise OutOfTime(f"something was always left to do for {_TURNS_AWAKE} turns; these wait:\n{self._waiting()}")
        self._now += _TURN_S
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            process = process_of(handle._context)  # type: ignore[attr-defined]
            if process is None or (process.alive and process.held is None):
                handle._run()
            elif process.alive and process.held is not None:
                process.held.append(handle)

    def _jump(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or not _is_live(timers[0][2])):
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is left to happen, and these wait:\n{self._waiting()}")
        when = timers[0][0]
        if when > self.limit_s:
            raise OutOfTime(
                f"the run has not ended after {self.limit_s:g} s of its time; these wait:\n{self._waiting()}"
            )
        self._now = max(self._now, when)

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return "\n".join(f"  {_where(task)}" for task in tasks) or "  no task at all"

    def _abandon(self) -> None:
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Nothing is kept of them."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # ---- callbacks and time

    def time(self) -> float:
        now = self.monotonic()
        return now if self._pauses is None else int(now * _TICKS_PER_S) / _TICKS_PER_S

    def monotonic(self) -> float:
        """The time of other clocks than the loop's own."""
        if self._pauses is not None and self._pauses.random() < _PAUSED_READINGS:
            self._now += self._pauses.random() * _PAUSE_S
        return self.exact_s

    @property
    def exact_s(self) -> float:
        """For observers: looking takes no time."""
        return self._now if self._job_slept is None else self._now + self._job_slept

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        tick = when if self._pauses is None else round(when * _TICKS_PER_S) / _TICKS_PER_S
        return self._enqueue(tick, asyncio.TimerHandle(when, callback, args, self, context))

    def happen_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs something outside of the program at exactly that time."""
        return self._enqueue(when, asyncio.TimerHandle(when, callback, args, self, context))

    def _enqueue(self, when: float, handle: asyncio.TimerHandle) -> asyncio.TimerHandle:
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is left out when its time comes."""

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return _SimFuture(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        process = process_of(context)
        if process is not None and not process.alive:
            coro.close()
            raise SimulatedCrash(f"{process.name} is dead and starts nothing")
        if context is None:
            context = contextvars.copy_context()
        if self._task_factory is not None:
            task: asyncio.Task[T] = self._task_factory(self, coro, context=context, **options)
        else:
            self._sequence += 1
            task = _SimTask(coro, loop=self, name=name or f"task {self._sequence}", context=context, **options)
        if process is not None:
            process.adopt(task, context)
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    # ---- jobs in threads

    def run_in_executor(self, executor: None, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """The job runs at once at a random later time, and its result arrives some time after that: other events come
        before, between or after, never within."""
        if executor is not None:
            raise NotImplementedError("the simulated loop has its own executor: None")
        process = process_of()
        if process is not None and not process.alive:
            raise SimulatedCrash(f"{process.name} is dead and starts nothing")
        future: asyncio.Future[T] = self.create_future()
        self.happen_at(self.exact_s + self._thread_delay_s(), self._run_job, future, func, args)
        return future

    def _run_job(self, future: "asyncio.Future[T]", func: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._trace.note("job", getattr(func, "__qualname__", type(func).__name__))
        self._job_slept = 0.0
        result: T | None = None
        error: Exception | None = None
        try:
            result = func(*args)
        except Exception as caught:  # noqa: BLE001  # handed to the task that waits for the job
            error = caught
        finally:
            slept, self._job_slept = self._job_slept, None
        self.happen_at(self.exact_s + slept + self._thread_delay_s(), _settle, future, result, error)

    def _thread_delay_s(self) -> float:
        slow = self._source.random() < _SLOW_THREADS
        return self._source.random() * (_SLOW_THREAD_S if slow else _THREAD_S)

    @property
    def is_in_job(self) -> bool:
        return self._job_slept is not None

    def sleep_in_job(self, seconds: float) -> None:
        if self._job_slept is None:
            raise RuntimeError("this would block the event loop: only a job in a thread may sleep")
        self._job_slept += seconds

    # ---- errors

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        exception = context.get("exception")
        future = context.get("future")
        if isinstance(future, _SimFuture | _SimTask) and future.process is not None and not future.process.alive:
            # No listener is left.
            return
        if not isinstance(exception, SimulatedCrash):
            self.unhandled.append((context["message"], exception))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_exception_handler(self) -> None:
        return None

    def set_exception_handler(self, handler: Any) -> None:
        if handler is not None:
            raise NotImplementedError("the simulated loop keeps what went wrong in `unhandled`")

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignored: debug mode measures real time."""


class _SimFuture(asyncio.Future[T]):
    """Knows its process."""

    process: Process | None

    def __init__(self, *, loop: SimLoop) -> None:
        super().__init__(loop=loop)
        self.process = process_of()


class _SimTask(asyncio.Task[T]):
    """Tasks are kept in sets, which are ordered by hash: these hashes do not depend on memory addresses."""

    _number: int
    process: Process | None

    def __new__(cls, *args: Any, loop: SimLoop, **options: Any) -> "_SimTask[T]":
        task = super().__new__(cls)
        task._number = loop._sequence
        context = options.get("context")
        task.process = process_of() if context is None else context.run(process_of)
        return task

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _is_live(handle: asyncio.Handle) -> bool:
    process = process_of(handle._context)  # type: ignore[attr-defined]
    return process is None or process.alive


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack()
    place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not begun"
    return f"{task.get_name()}: {getattr(task.get_coro(), '__qualname__', '?')} at {place}"
