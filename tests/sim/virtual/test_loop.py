"""The virtual loop: time that jumps, one order, threads that are not, and processes that end in the middle."""

import asyncio
import gc
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cordwood.runtime.network import ConnectionLost
from cordwood.sim.trace import Trace
from cordwood.sim.virtual.clock import SimClock
from cordwood.sim.virtual.disk import SimulatedCrash
from cordwood.sim.virtual.loop import Deadlock, OutOfTime, SimLoop
from cordwood.sim.world import UnhandledErrors, World


def new_loop(seed: int = 0, limit_s: float = float("inf")) -> SimLoop:
    return SimLoop(random.Random(seed), Trace(), limit_s=limit_s)


# ---- time and order


def test_a_sleep_of_a_year_takes_no_time_and_a_year_of_the_loops() -> None:
    async def main() -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time() - began

    assert new_loop().run_until_complete(main()) == pytest.approx(365 * 86_400)


def test_timers_fire_by_their_time_and_equal_ones_in_the_order_they_were_set() -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + 5
        loop.call_at(at + 1, seen.append, "last")
        for number in range(20):
            loop.call_at(at, seen.append, f"equal {number}")
        loop.call_at(at - 1, seen.append, "first")
        loop.call_at(at, seen.append, "cancelled").cancel()
        await asyncio.sleep(10)

    new_loop().run_until_complete(main())
    assert seen == ["first", *(f"equal {number}" for number in range(20)), "last"]


def test_with_pauses_some_readings_take_time_and_the_loops_own_are_coarse() -> None:
    world = World(0, pauses=True)

    async def main() -> None:
        begun_s = world.loop.exact_s
        readings = [world.clock.monotonic() for _ in range(1000)]
        assert world.loop.exact_s == readings[-1] == max(readings)
        assert 0 < len(set(readings)) - 1 < 200
        assert readings[-1] - begun_s < 1
        assert all((world.loop.time() * 1000).is_integer() for _ in range(1000))

    world.run(main())


def test_with_pauses_timers_come_a_little_early_and_what_others_do_comes_exactly_then() -> None:
    world = World(0, pauses=True)
    timers_s: list[float] = []
    others_s: list[float] = []

    def note(late_s: list[float], when: float) -> None:
        late_s.append(world.loop.exact_s - when)

    async def main() -> None:
        for _ in range(100):
            when = world.loop.exact_s + 1
            world.loop.call_at(when, note, timers_s, when)
            world.loop.happen_at(when + 5, note, others_s, when + 5)
            await asyncio.sleep(10.0001234)

    world.run(main())
    assert -0.0005 <= min(timers_s) < 0
    assert 0 <= min(others_s) <= max(others_s) < 0.0001


def test_a_task_that_only_yields_lets_timers_come() -> None:
    async def main() -> None:
        done: list[bool] = []
        asyncio.get_running_loop().call_later(0.01, done.append, True)
        while not done:
            await asyncio.sleep(0)

    new_loop().run_until_complete(main())


def test_time_limits_and_cancellation_work() -> None:
    async def main() -> str:
        try:
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        except TimeoutError:
            return f"{asyncio.get_running_loop().time():.0f} s"
        return "never"

    assert new_loop().run_until_complete(main()) == "3 s"


def test_tasks_in_a_set_are_walked_in_the_same_order_in_each_run() -> None:
    def run() -> list[str]:
        async def main() -> list[str]:
            tasks = {asyncio.ensure_future(asyncio.sleep(1)): f"{number}" for number in range(1000)}
            done, _ = await asyncio.wait(set(tasks))
            return [tasks[task] for task in done]

        return new_loop().run_until_complete(main())

    keep_memory_busy = [bytearray(100) for _ in range(100)]
    first = run()
    keep_memory_busy.clear()
    assert run() == first


# ---- the end


def test_an_impossible_wait_is_a_deadlock_that_names_the_waiters() -> None:
    async def waits_for_godot() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        other = asyncio.ensure_future(waits_for_godot())
        await other

    with pytest.raises(Deadlock, match=r"nothing is left to happen(.|\n)*waits_for_godot at .*test_loop.py:\d+"):
        World(0).run(main())


def test_a_run_past_its_limit_is_ended() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(10)

    with pytest.raises(OutOfTime, match="not ended after 3600 s"):
        World(0, limit_s=3600).run(main())


def test_a_run_that_only_yields_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.sim.virtual.loop._TURNS_AWAKE", 1000)

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(OutOfTime, match="always left to do for 1000 turns"):
        World(0).run(main())


def test_an_unhandled_exception_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledErrors, match="ZeroDivisionError"):
        World(0).run(main())


@pytest.mark.parametrize("name", ["add_reader", "add_signal_handler", "subprocess_exec", "sock_sendall"])
def test_unsupported_operations_of_the_simulator_raise(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"a simulated loop has no {name}: use the ports"):
        getattr(new_loop(), name)(1, 2)


# ---- jobs in threads


def test_a_job_runs_later_and_others_run_before_between_and_after() -> None:
    def order(seed: int) -> str:
        seen: list[str] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for number in range(12):
                loop.call_later(number * 0.001, seen.append, ".")
            await loop.run_in_executor(None, seen.append, "job")
            seen.append("done")

        new_loop(seed).run_until_complete(main())
        assert seen[0] == "."
        return " ".join(seen)

    orders = {order(seed) for seed in range(30)}
    assert any("job done" in one for one in orders)
    assert any("job . . done" in one for one in orders)
    assert all(order(seed) == order(seed) for seed in range(5))


def test_a_failing_job_raises_in_its_waiter() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    World(0).run(main())


def test_a_job_sleeps_without_holding_the_loop_and_blocking_the_loop_is_an_error() -> None:
    world = World(0)
    clock = world.clock

    def job() -> float:
        began = clock.monotonic()
        clock.sleep(60)
        return clock.monotonic() - began

    async def main() -> None:
        ticks: list[float] = []
        world.loop.call_later(30, lambda: ticks.append(world.loop.time()))
        assert await world.loop.run_in_executor(None, job) == 60
        assert clock.monotonic() >= 60
        assert ticks == [pytest.approx(30)]
        with pytest.raises(RuntimeError, match="would block the event loop"):
            clock.sleep(1)

    world.run(main())


def test_wall_time_goes_with_the_loop_and_may_be_set_back() -> None:
    loop = new_loop()
    clock = SimClock(loop)

    async def main() -> None:
        began = clock.now_ms()
        await asyncio.sleep(2)
        assert clock.now_ms() - began == 2000
        clock.set_back(5000)
        assert clock.now_ms() - began == -3000
        assert clock.monotonic() == pytest.approx(2, abs=0.001)

    loop.run_until_complete(main())


# ---- processes


def run_and_kill(start: Callable[[list[str]], None]) -> list[str]:
    """The notes of a process that begins with `start`, and is killed after 10 s."""
    world = World(0)
    seen: list[str] = []

    async def begin() -> None:
        start(seen)
        await asyncio.Event().wait()

    async def main() -> None:
        process = world.process("victim")
        process.start(begin())
        await asyncio.sleep(10)
        process.kill()
        await asyncio.sleep(100)

    world.run(main())
    return seen


def test_nothing_of_a_killed_process_runs_again() -> None:
    def start(seen: list[str]) -> None:
        loop = asyncio.get_running_loop()

        async def tick() -> None:
            while True:
                seen.append("task")
                await asyncio.sleep(6)

        def again() -> None:
            seen.append("timer")
            loop.call_later(6, again)

        tasks = [asyncio.ensure_future(tick())]
        again()
        loop.call_later(9.9999, loop.run_in_executor, None, seen.append, "job")
        tasks.append(asyncio.ensure_future(asyncio.sleep(1000)))

    assert run_and_kill(start) == ["timer", "task", "timer", "task"]


def test_finally_blocks_of_a_killed_process_have_no_effect() -> None:
    other: list[str] = []

    def start(seen: list[str]) -> None:
        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                asyncio.get_running_loop().call_soon(other.append, "callback")
                await asyncio.sleep(1)
                other.append("after an await")

        seen.append(asyncio.ensure_future(stubborn()).get_name())

    run_and_kill(start)
    assert other == []


def test_nested_waits_of_a_killed_process_end_from_the_inside_out() -> None:
    """Else one that awaits something as it ends is left hanging, and complains when it is collected."""
    complaints: list[object] = []

    def start(seen: list[str]) -> None:
        async def inner() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await asyncio.sleep(1)
                finally:
                    await asyncio.sleep(1)

        async def outer() -> None:
            await inner()

        asyncio.ensure_future(outer()).set_name("outer")

    hook, sys.unraisablehook = sys.unraisablehook, complaints.append
    try:
        run_and_kill(start)
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert complaints == []


def test_unstarted_coroutines_of_a_killed_process_are_closed_silently() -> None:
    world = World(0)

    async def innermost() -> None:
        raise AssertionError("it begins")

    async def inner(held: Coroutine[Any, Any, None]) -> None:
        await held

    async def main() -> None:
        process = world.process("victim")
        kept = [inner(innermost())]
        process.start(inner(kept[0]))
        process.kill()
        await asyncio.sleep(1)
        assert inspect.getcoroutinestate(kept[0]) == inspect.CORO_CLOSED

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        world.run(main())
        gc.collect()
    assert complaints == []


def test_unretrieved_errors_of_a_killed_process_do_not_fail_the_run() -> None:
    def start(seen: list[str]) -> None:
        loop = asyncio.get_running_loop()

        async def close() -> None:
            answer = loop.create_future()
            try:
                await asyncio.Event().wait()
            finally:
                answer.set_exception(ConnectionLost("closed"))

        asyncio.ensure_future(close()).set_name("close")

    run_and_kill(start)
    gc.collect()


def test_a_process_that_kills_itself_starts_nothing_more() -> None:
    world = World(0)
    process = world.process("victim")
    seen: list[str] = []

    async def job() -> None:
        seen.append("never")

    async def victim() -> None:
        process.kill()
        with pytest.raises(SimulatedCrash):
            await asyncio.ensure_future(job())
        with pytest.raises(SimulatedCrash):
            asyncio.get_running_loop().run_in_executor(None, seen.append, "never")
        await asyncio.sleep(0)
        seen.append("never")

    async def main() -> None:
        process.start(victim())
        await asyncio.sleep(1)

    world.run(main())
    assert seen == []
