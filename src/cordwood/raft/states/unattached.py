"""Unattached: in an epoch without a leader that could be fetched from."""

from dataclasses import dataclass

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, ReplicaKey

from .votes import can_grant


@dataclass(slots=True)
class Unattached:
    """Knows an epoch, and perhaps its leader's id, but not the leader's endpoints.

    - Votes once in the epoch (`voted_key`), then waits for the outcome.
    - Sends Fetch to the bootstrap servers, which answer with the leader.
    - A voter whose election timeout expires becomes Prospective. An observer waits indefinitely.
    """

    epoch: int
    leader_id: int | None
    voted_key: ReplicaKey | None
    high_watermark: int | None
    # None: never.
    election_deadline_ms: int | None

    name = "Unattached"

    @property
    def leader_endpoints(self) -> Endpoints:
        return {}

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return can_grant(key, self.voted_key, self.leader_id, up_to_date=up_to_date, pre_vote=pre_vote)
