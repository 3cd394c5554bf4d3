"""Bugs for the simulation to find. Each is a patch of the real code."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import ReplicaKey
from cordwood.raft.log import Diverging, LogState, NeedsSnapshot, OffsetAndEpoch
from cordwood.raft.replica import Replica
from cordwood.raft.states import Leader, prospective, unattached

Plant = Callable[[pytest.MonkeyPatch], None]


def vote_twice_in_an_epoch(patch: pytest.MonkeyPatch) -> None:
    def can_grant(key: ReplicaKey, voted_key: ReplicaKey | None, leader_id: int | None, **asked: bool) -> bool:
        return asked["up_to_date"]

    patch.setattr(unattached, "can_grant", can_grant)
    patch.setattr(prospective, "can_grant", can_grant)


def forget_to_persist_the_vote(patch: pytest.MonkeyPatch) -> None:
    encode = ElectionState.encode

    def encode_without_vote(self: ElectionState, kraft_version: int, voter_ids: list[int]) -> bytes:
        return encode(replace(self, voted_key=None), kraft_version, voter_ids)

    patch.setattr(ElectionState, "encode", encode_without_vote)


def count_an_unflushed_append(patch: pytest.MonkeyPatch) -> None:
    flushed = Leader.flushed
    append: Any = Replica._append

    def append_and_count(self: Replica, batch: bytes, epoch: int) -> None:
        append(self, batch, epoch)
        if isinstance(self.quorum.state, Leader) and flushed(self.quorum.state, self.log.end_offset):
            self.high_watermark_moved = True

    patch.setattr(Replica, "acknowledged_offset", property(lambda self: self.log.end_offset))
    patch.setattr(Replica, "_append", append_and_count)
    patch.setattr(Leader, "flushed", lambda self, offset: False)


def commit_an_earlier_epoch_by_count_alone(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Leader) -> bool:
        ranked = sorted(self.voters.values(), key=lambda voter: voter.rank)
        majority_has = ranked[len(ranked) // 2].end_offset
        if majority_has is None or (self.high_watermark is not None and majority_has <= self.high_watermark):
            return False
        self.high_watermark = majority_has
        return True

    patch.setattr(Leader, "_advance_high_watermark", advance)


def truncate_committed_entries(patch: pytest.MonkeyPatch) -> None:
    truncate = Replica.truncate

    def truncate_more(self: Replica, diverging: OffsetAndEpoch, high_watermark: int | None) -> None:
        # The whole epoch, where only its end differs.
        starts = [start.offset for start in self.log.epochs if start.epoch <= diverging.epoch]
        cut = starts[-1] if starts else self.log.start_offset
        truncate(self, OffsetAndEpoch(min(cut, diverging.offset), diverging.epoch), None)

    patch.setattr(Replica, "truncate", truncate_more)


def ignore_a_diverging_epoch(patch: pytest.MonkeyPatch) -> None:
    validate = LogState.validate

    def never_diverges(self: LogState, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
        problem = validate(self, offset, epoch)
        return None if isinstance(problem, Diverging) else problem

    patch.setattr(LogState, "validate", never_diverges)


def let_an_observer_count(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Leader) -> bool:
        replicas = [*self.voters.values(), *self.observers.values()]
        ranked = sorted(replicas, key=lambda replica: replica.rank)
        majority_has = ranked[len(self.voters) // 2].end_offset
        if majority_has is None or majority_has <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and majority_has <= self.high_watermark:
            return False
        self.high_watermark = majority_has
        return True

    patch.setattr(Leader, "_advance_high_watermark", advance)
    patch.setattr(Leader, "is_voter", lambda self, key: True)


BUGS: list[Plant] = [
    vote_twice_in_an_epoch,
    forget_to_persist_the_vote,
    count_an_unflushed_append,
    commit_an_earlier_epoch_by_count_alone,
    truncate_committed_entries,
    ignore_a_diverging_epoch,
    let_an_observer_count,
]
