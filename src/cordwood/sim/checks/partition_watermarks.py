"""A leader's high watermark never goes back within its epoch."""

from collections.abc import Iterator

from cordwood.sim.history import History, Partition

from .violation import Violation


def high_watermarks_never_go_back_within_an_epoch(history: History) -> Iterator[Violation]:
    latest: dict[tuple[Partition, int, int, int], int] = {}
    for led in history.replicas.led:
        key = (led.partition, led.epoch, led.node_id, led.incarnation)
        if led.high_watermark < latest.get(key, 0):
            yield Violation(
                "high watermarks never go back within an epoch",
                f"{led.partition[0]}-{led.partition[1]} on node {led.node_id}, epoch {led.epoch}: {led.high_watermark} "
                f"at {led.at_s:.6f} after {latest[key]}",
            )
            return
        latest[key] = led.high_watermark
