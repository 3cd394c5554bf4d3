"""The in-sync set changes through the controller only: a leader uses the set committed in that epoch."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.partition import Partition, partition_name

from .violation import Violation


def leaders_go_by_the_committed_isr(history: History) -> Iterator[Violation]:
    committed: dict[tuple[Partition, int], tuple[int, ...]] = {
        (change.partition, change.state.partition_epoch): change.state.isr for change in history.replicas.states
    }
    for led in history.replicas.led:
        expected = committed.get((led.partition, led.partition_epoch))
        if expected is None or set(expected) != set(led.isr):
            yield Violation(
                "the in-sync set changes through the controller only",
                f"{led.at_s:.6f}: node {led.node_id} leads {partition_name(led.partition)} with {led.isr} in partition "
                f"epoch {led.partition_epoch}; committed is {expected}",
            )
            return
