"""Brokers whose replication is broken on purpose."""

import pytest

from cordwood.replica.follower import Fetched, Follower
from cordwood.replica.leader import FollowerFetched, FollowerState, Leader
from cordwood.replica.partition import Partition
from tests.sim.mutants import Mutant


def acknowledge_before_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "is_acknowledged", lambda self, offset, acks: offset < self.written)


def count_the_leader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark is the end of the leader's log, whatever its followers have."""

    def advance(self: Leader, _now_ms: int) -> bool:
        has_moved = self.end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, self.end_offset)
        return has_moved

    monkeypatch.setattr(Leader, "_advance", advance)


def believe_a_follower_before_its_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent to a follower counts as if it had it."""
    fetched = FollowerState.fetched

    def believe(self: FollowerState, event: FollowerFetched, leader_end: int, now_ms: int) -> None:
        fetched(self, event._replace(fetch_offset=leader_end), leader_end, now_ms)

    monkeypatch.setattr(FollowerState, "fetched", believe)


def ignore_a_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Follower._fetched

    def keep(self: Follower, event: Fetched, now_ms: int) -> object:
        return [] if event.diverging is not None else step(self, event, now_ms)

    monkeypatch.setattr(Follower, "_fetched", keep)


CLUSTER_MUTANTS: list[Mutant] = [
    acknowledge_before_the_high_watermark,
    count_the_leader_alone,
    believe_a_follower_before_its_append,
    ignore_a_divergence,
]
