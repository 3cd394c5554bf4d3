"""Work on the loop in slices: a few steps, then other tasks; blocking calls go to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cordwood.log.steps import Steps

T = TypeVar("T")

# A step takes tens of microseconds at most (`log.steps`), so that a slice takes a millisecond or two.
SLICE_STEPS = 40


class Stopped(Exception):
    """The work was abandoned between two steps, since the node is stopping."""


class Slices:
    def __init__(self) -> None:
        self.is_stopping = False
        # Called after each slice with its steps, for metrics.
        self.on_slice: Callable[[int], None] = lambda _steps: None

    async def do(self, steps: Steps[T], *, to_its_end: bool = False) -> T:
        """Runs the work and returns its result. Abandons it when the node stops, unless it must be completed."""
        done = 0
        loop = asyncio.get_running_loop()
        try:
            step = next(steps)
            while True:
                if isinstance(step, int):
                    done += step
                    if done >= SLICE_STEPS:
                        self.on_slice(done)
                        done = 0
                        await asyncio.sleep(0)
                else:
                    try:
                        await loop.run_in_executor(None, step)
                    except Exception as error:  # noqa: BLE001 - the work's to handle, or its caller's
                        step = steps.throw(error)
                        continue
                if self.is_stopping and not to_its_end:
                    raise Stopped
                step = next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            steps.close()
