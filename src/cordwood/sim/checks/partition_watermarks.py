"""A leader's high watermark never goes back within its epoch, and that of a replica while it has its log."""

from collections.abc import Iterator

from cordwood.sim.history import History
from cordwood.sim.partition import Partition, partition_name

from .violation import Violation


def high_watermarks_never_go_back_within_an_epoch(history: History) -> Iterator[Violation]:
    latest: dict[tuple[Partition, int, int, int], int] = {}
    for led in history.replicas.led:
        key = (led.partition, led.epoch, led.node_id, led.incarnation)
        if led.high_watermark < latest.get(key, 0):
            yield Violation(
                "high watermarks never go back within an epoch",
                f"{partition_name(led.partition)} on node {led.node_id}, epoch {led.epoch}: {led.high_watermark} "
                f"at {led.at_s:.6f} after {latest[key]}",
            )
            return
        latest[key] = led.high_watermark


def high_watermarks_of_replicas_never_go_back(history: History) -> Iterator[Violation]:
    """An election, in particular, moves none back."""
    latest: dict[tuple[Partition, int, int, int], int] = {}
    for held in history.replicas.held:
        key = (held.partition, held.node_id, held.incarnation, held.log)
        if held.high_watermark < latest.get(key, 0):
            yield Violation(
                "high watermarks of replicas never go back",
                f"{partition_name(held.partition)} on node {held.node_id}: {held.high_watermark} at {held.at_s:.6f} "
                f"after {latest[key]}",
            )
            return
        latest[key] = held.high_watermark
