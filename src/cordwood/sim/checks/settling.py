"""A group that nothing befalls any more shares out all partitions, whatever it has been through."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def groups_settle(history: History) -> Iterator[Violation]:
    for what in history.groups.left_over:
        yield Violation("a group that is left alone shares out everything", what)
