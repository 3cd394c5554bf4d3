"""Work on logs split into steps, so that other work can run in between.

A generator that does such work yields a number after some work on the owner's thread (its cost in steps of at most tens
of microseconds), or a job for any thread if it would block; it continues when that is done. It must expect that
anything may have changed in between.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")

Job = Callable[[], None]
Steps = Generator[int | Job, None, T]


def do_all(steps: Steps[T]) -> T:
    """Runs all steps at once, on the caller's thread."""
    try:
        while True:
            step = next(steps)
            if not isinstance(step, int):
                step()
    except StopIteration as ended:
        result: T = ended.value
        return result
