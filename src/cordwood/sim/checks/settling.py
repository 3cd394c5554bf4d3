"""After the last fault a group assigns all partitions, whatever its history."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def groups_settle(history: History) -> Iterator[Violation]:
    for what in history.groups.left_over:
        yield Violation("a group that is left alone shares out everything", what)
