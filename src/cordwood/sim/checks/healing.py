"""After the last fault a cluster recovers within a bounded time."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def the_cluster_heals(history: History) -> Iterator[Violation]:
    for what in history.quorum.unhealed:
        yield Violation("the cluster heals", what)
