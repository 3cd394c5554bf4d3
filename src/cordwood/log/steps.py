"""Work on logs that is cut into steps, so that who does it can let others go first in between.

A generator that does such work yields a number after a stretch of work on the owner's thread (how many steps it was
worth, one step being tens of microseconds at most), and a job, which may run in any thread, where it would block; it
goes on when that is done. It keeps in mind that anything may have happened meanwhile.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")

Job = Callable[[], None]
Steps = Generator[int | Job, None, T]


def do_all(steps: Steps[T]) -> T:
    """Does the work at once, on the caller's thread."""
    try:
        while True:
            step = next(steps)
            if not isinstance(step, int):
                step()
    except StopIteration as ended:
        result: T = ended.value
        return result
