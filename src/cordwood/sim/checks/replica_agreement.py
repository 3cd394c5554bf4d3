"""Replicas that are in sync hold the same records below the high watermark."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def in_sync_replicas_agree(history: History) -> Iterator[Violation]:
    for difference in history.replicas.differences[:1]:
        yield Violation("in-sync replicas agree", difference)
