"""Each replica uses the topic settings known to its broker, `min.insync.replicas` among them."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def replicas_go_by_their_topics_settings(history: History) -> Iterator[Violation]:
    for difference in history.replicas.stale_settings[:1]:
        yield Violation("replicas go by their topic's settings", difference)
