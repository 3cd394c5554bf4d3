"""A leader epoch of a partition has one leader."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Partition

from .violation import Violation


def a_partition_epoch_has_one_leader(history: History) -> Iterator[Violation]:
    leaders: dict[tuple[Partition, int], int] = {}
    for led in history.replicas.led:
        known = leaders.setdefault((led.partition, led.epoch), led.node_id)
        if known != led.node_id:
            yield Violation(
                "a partition epoch has one leader",
                f"node {known} and, at {led.at_s:.6f}, node {led.node_id} lead {led.partition[0]}-{led.partition[1]} "
                f"in epoch {led.epoch}",
            )
            return
