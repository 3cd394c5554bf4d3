"""A replica that is in sync has everything below the high watermark."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def in_sync_replicas_have_what_is_committed(history: History) -> Iterator[Violation]:
    for shortfall in history.replicas.shortfalls[:1]:
        yield Violation("in-sync replicas have all committed records", shortfall)
