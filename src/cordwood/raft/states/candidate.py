"""Candidate: asks for votes in a new epoch."""

from dataclasses import dataclass

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, ReplicaKey

from .votes import Votes


@dataclass(slots=True)
class Candidate:
    """A voter that has voted for itself, durably, in an epoch that it began.

    - Sends Vote to all voters. A majority makes it Leader.
    - When the election timeout expires, won or lost, it becomes Prospective again. One that has lost already waits
      for that, so that others get their chance.
    - Never votes for another in this epoch.
    """

    epoch: int
    local_key: ReplicaKey
    high_watermark: int | None
    votes: Votes
    election_deadline_ms: int

    name = "Candidate"
    leader_id = None

    @property
    def voted_key(self) -> ReplicaKey:
        return self.local_key

    @property
    def leader_endpoints(self) -> Endpoints:
        return {}

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, None, self.local_key)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
