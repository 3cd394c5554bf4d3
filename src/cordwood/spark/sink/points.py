"""Named points at which tests kill a process: the option `testing.at` of a write, and nothing without it.

    <point>[@<batch>]=<halt or kill>:<file>

The first process to reach the point creates the file, and then halts until it is killed (so that a test can kill a
whole driver), or kills itself. The file then exists, so later lives continue.
"""

import os
import signal
from dataclasses import dataclass
from enum import Enum

from cordwood.spark.errors import BadOption


class Point(Enum):
    TASK_BEGUN = "task-begun"
    TASK_WRITTEN = "task-written"
    TASK_LEFT = "task-left"
    COMMIT_BEGUN = "commit-begun"
    BEFORE_DECISION = "before-decision"
    AFTER_DECISION = "after-decision"
    BETWEEN_ENDS = "between-ends"
    AFTER_ENDS = "after-ends"


@dataclass(frozen=True, slots=True)
class Trap:
    """One point, in one batch or in any."""

    point: Point
    batch: int | None
    kills: bool
    file: str

    def reached(self, point: Point, batch: int) -> None:
        if point is not self.point or self.batch not in (None, batch):
            return
        try:
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            signal.pause()


def read_trap(text: str | None) -> Trap | None:
    """Raises `BadOption`."""
    if text is None:
        return None
    where, _, what = text.partition("=")
    name, _, batch = where.partition("@")
    action, _, file = what.partition(":")
    if action not in ("halt", "kill") or not file or name not in {point.value for point in Point}:
        raise BadOption(f"testing.at is {text!r}; expected point@batch=halt:file or point=kill:file")
    return Trap(Point(name), int(batch) if batch else None, action == "kill", file)
