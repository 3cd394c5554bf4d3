"""A leader's high watermark never goes back, neither within its epoch nor with its election."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.histories.replicas import Held
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


def elections_move_no_high_watermark_back(history: History) -> Iterator[Violation]:
    """A new leader continues with the high watermark that it had. A follower takes its leader's, which may be lower
    where that leader does not know yet how far its predecessor was: the follower may still do so, unseen, between the
    last look at it and its election."""
    leaders = _leaders_high_watermarks(history)
    latest: dict[tuple[Partition, int, int, int], Held] = {}
    for held in history.replicas.held:
        key = (held.partition, held.node_id, held.incarnation, held.log)
        before = latest.get(key)
        latest[key] = held
        if before is None or not held.is_leader or held.leader_epoch != before.leader_epoch + 1:
            continue
        leaders_own = leaders.get((before.partition, before.leader_epoch, before.at_s), before.high_watermark)
        if held.high_watermark < before.high_watermark <= leaders_own:
            yield Violation(
                "elections move no high watermark back",
                f"{partition_name(held.partition)} on node {held.node_id}: {held.high_watermark} at {held.at_s:.6f}, "
                f"as the leader of epoch {held.leader_epoch}, after {before.high_watermark}",
            )
            return


def _leaders_high_watermarks(history: History) -> dict[tuple[Partition, int, float], int]:
    """By partition, epoch and time: all replicas of a partition are looked at together."""
    return {(led.partition, led.epoch, led.at_s): led.high_watermark for led in history.replicas.led}
