"""Many timeouts on few timers: each comes due when its own timer would have."""

from __future__ import annotations

import asyncio

from cordwood.broker.timeouts import Timeouts
from cordwood.sim.world import World


class Waiting:
    def __init__(self, timeouts: Timeouts, timeout_ms: int) -> None:
        self.expired_at: float | None = None
        timeouts.start(self, timeout_ms)

    def expired(self) -> None:
        self.expired_at = round(asyncio.get_running_loop().time(), 3)


def test_each_expires_at_its_own_time() -> None:
    async def test() -> None:
        timeouts = Timeouts()
        begun = asyncio.get_running_loop().time()
        first, longer = Waiting(timeouts, 100), Waiting(timeouts, 130)
        await asyncio.sleep(0.05)
        second = Waiting(timeouts, 100)
        await asyncio.sleep(1)
        found = [first.expired_at, longer.expired_at, second.expired_at]
        assert found == [round(begun + after_s, 3) for after_s in (0.1, 0.13, 0.15)]

    World(1).run(test())


def test_an_answered_request_does_not_time_out() -> None:
    async def test() -> None:
        timeouts = Timeouts()
        answered, other = Waiting(timeouts, 100), Waiting(timeouts, 100)
        timeouts.stop(answered, 100)
        await asyncio.sleep(1)
        assert (answered.expired_at is None, other.expired_at is None) == (True, False)

    World(1).run(test())


def test_without_any_time_it_expires_at_once_but_not_within_the_call() -> None:
    async def test() -> None:
        timeouts = Timeouts()
        waiting = Waiting(timeouts, 0)
        assert waiting.expired_at is None
        await asyncio.sleep(0.001)
        assert waiting.expired_at is not None

    World(1).run(test())


def test_nothing_is_kept_of_those_that_are_done() -> None:
    async def test() -> None:
        timeouts = Timeouts()
        for timeout_ms in range(100):
            timeouts.stop(Waiting(timeouts, timeout_ms), timeout_ms)
        await asyncio.sleep(1)
        assert not timeouts._waiting
        Waiting(timeouts, 5)
        assert timeouts._waiting

    World(1).run(test())
