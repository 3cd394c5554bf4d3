"""The portal: coroutines on a loop's thread, callbacks in the thread that waits."""

import _thread
import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from cordwood.client.blocking.portal import Portal
from cordwood.client.errors import Closed, IllegalState, TimedOut
from cordwood.runtime import background


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal("portal of a test")
    yield portal
    portal.close()


async def thread_name() -> str:
    return threading.current_thread().name


async def forever() -> None:
    await asyncio.Event().wait()


def test_a_coroutine_runs_on_its_own_thread(portal: Portal) -> None:
    assert portal.run(thread_name()) == "portal of a test"


def test_exceptions_of_a_coroutine_are_raised_in_the_waiting_thread(portal: Portal) -> None:
    async def fail() -> None:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        portal.run(fail())


def test_after_its_timeout_a_coroutine_is_cancelled(portal: Portal) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await forever()
        finally:
            cancelled.set()

    with pytest.raises(TimedOut, match=r"within 0\.01 s"):
        portal.run(work(), timeout=0.01)
    assert cancelled.is_set()


def test_the_coroutines_own_timeout_is_not_mistaken_for_the_calls(portal: Portal) -> None:
    async def work() -> None:
        raise TimeoutError("of something else")

    with pytest.raises(TimeoutError, match="of something else"):
        portal.run(work(), timeout=60)


def test_a_callback_runs_in_the_thread_that_waits(portal: Portal) -> None:
    async def work() -> str:
        return await portal.in_caller(lambda: threading.current_thread().name)

    assert portal.run(work()) == threading.current_thread().name


def test_a_callback_may_call_the_portal_again(portal: Portal) -> None:
    async def inner(depth: int) -> list[str]:
        if depth == 0:
            return [await thread_name()]
        deeper = await portal.in_caller(portal.run, inner(depth - 1))
        return [*deeper, await portal.in_caller(lambda: threading.current_thread().name)]

    mine = threading.current_thread().name
    assert portal.run(inner(3)) == ["portal of a test", mine, mine, mine]


def test_exceptions_of_a_callback_are_raised_in_the_coroutine(portal: Portal) -> None:
    def fail() -> None:
        raise ValueError("the application's own")

    async def work() -> str:
        try:
            await portal.in_caller(fail)
        except ValueError as error:
            return f"heard: {error}"
        return "nothing heard"

    assert portal.run(work()) == "heard: the application's own"


def test_a_callback_of_a_background_task_waits_for_the_next_call(portal: Portal) -> None:
    done: list[str] = []
    tasks: list[asyncio.Task[Any]] = []

    async def background_work() -> None:
        await between_calls.wait()
        await portal.in_caller(lambda: done.append(threading.current_thread().name))

    async def start() -> None:
        tasks.append(asyncio.get_running_loop().create_task(background_work()))

    async def poll() -> None:
        await asyncio.wait(tasks)

    between_calls = asyncio.Event()
    portal.run(start())
    portal.post(between_calls.set)
    assert done == []
    portal.run(poll())
    assert done == [threading.current_thread().name]


def test_each_of_several_threads_gets_its_own_callbacks(portal: Portal) -> None:
    everyone = threading.Barrier(4)

    async def work() -> str:
        await asyncio.get_running_loop().run_in_executor(None, everyone.wait)
        return await portal.in_caller(lambda: threading.current_thread().name)

    answers: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda name=name: answers.update({name: portal.run(work())}), name=name)
        for name in ("a", "b", "c", "d")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {name: name for name in "abcd"}


class Large:
    """A coroutine's result."""


def test_returned_results_are_not_kept(portal: Portal) -> None:
    async def work() -> Large:
        return Large()

    gc.disable()
    try:
        returned = weakref.ref(portal.run(work()))
        # The loop's thread may have it in its hands still.
        portal.run(thread_name())
        assert returned() is None
    finally:
        gc.enable()


def test_control_c_cancels_the_coroutine_and_is_raised(portal: Portal) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await forever()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        portal.run(work())
    assert cancelled.is_set()
    assert portal.run(thread_name())


def test_control_c_that_comes_just_before_the_wait_ends_it_as_well(portal: Portal) -> None:
    async def work() -> None:
        # As such a signal does it: the main thread is marked, and what it waits in is not interrupted.
        _thread.interrupt_main()
        await forever()

    with pytest.raises(KeyboardInterrupt):
        portal.run(work())


def test_control_c_as_a_call_is_put_on_the_loop_ends_its_coroutine(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post_interrupted(callback: Callable[..., object], *args: object) -> None:
        monkeypatch.undo()
        portal.post(callback, *args)
        raise KeyboardInterrupt

    begun, ended = [0], [0]
    monkeypatch.setattr(portal, "post", post_interrupted)
    with pytest.raises(KeyboardInterrupt):
        portal.run(counted(begun, ended))
    assert begun == ended
    assert portal.run(thread_name())


async def counted(begun: list[int], ended: list[int]) -> None:
    begun[0] += 1
    try:
        await asyncio.sleep(0)
    finally:
        ended[0] += 1


def test_control_c_in_a_callback_cancels_the_coroutine_and_is_raised(portal: Portal) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        portal.run(portal.in_caller(interrupted))
    assert portal.run(thread_name())


def test_results_of_a_coroutine_after_ctrl_c_are_given_back(portal: Portal) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def work() -> str:
        with suppress(asyncio.CancelledError):
            await portal.in_caller(interrupted)
        return "too late to be stopped"

    given_back: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        portal.run(work(), undelivered=given_back.append)
    assert given_back == ["too late to be stopped"]


def test_a_call_on_the_loops_own_thread_is_refused_rather_than_stuck(portal: Portal) -> None:
    async def work() -> None:
        portal.run(thread_name())

    with pytest.raises(IllegalState, match="that would deadlock"):
        portal.run(work())


def test_close_ends_the_thread_and_pending_calls(portal: Portal) -> None:
    outcome: list[BaseException] = []
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await forever()

    def wait() -> None:
        try:
            portal.run(work())
        except Closed as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    begun.wait()
    portal.close()
    waiting.join()
    assert len(outcome) == 1
    assert "portal of a test" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(Closed):
        portal.run(thread_name())


def test_a_portal_that_was_never_used_has_no_thread(portal: Portal) -> None:
    assert "portal of a test" not in {thread.name for thread in threading.enumerate()}


def test_a_loop_that_cannot_start_raises_the_reason(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_loop() -> asyncio.AbstractEventLoop:
        raise OSError("too many open files")

    monkeypatch.setattr(background, "loop_factory", lambda: no_loop)
    with pytest.raises(OSError, match="too many open files"):
        portal.run(thread_name())


# Since 3.12 Python warns of what is tried here.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_gets_an_error_about_the_missing_thread(portal: Portal) -> None:
    portal.run(thread_name())
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            portal.run(thread_name())
            os.write(writer, b"ran")
        except IllegalState as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert "create one in each process" in pipe.read()
    os.waitpid(child, 0)
    assert portal.run(thread_name()) == "portal of a test"


def test_an_abandoned_client_does_its_last_work_and_ends(portal: Portal) -> None:
    finished = threading.Event()

    async def last_work() -> None:
        finished.set()

    portal.run(thread_name())
    [thread] = [thread for thread in threading.enumerate() if thread.name == "portal of a test"]
    portal.abandon(last_work())
    thread.join()
    assert finished.is_set()
