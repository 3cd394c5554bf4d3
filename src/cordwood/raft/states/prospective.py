"""Prospective: checks whether it could win an election, before it disrupts the quorum with a new epoch (KIP-996)."""

from dataclasses import dataclass

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, ReplicaKey

from .votes import Votes, can_grant


@dataclass(slots=True)
class Prospective:
    """A voter that lost its leader or never had one, in the same epoch as before.

    - Sends pre-votes to all voters. A majority makes it Candidate in the next epoch.
    - Without a majority, or when the election timeout expires, it goes back: to Follower if it knows the epoch's
      leader and its endpoints, else to Unattached.
    - Keeps the vote of the epoch, and may still give one.
    """

    epoch: int
    leader_id: int | None
    leader_endpoints: Endpoints
    voted_key: ReplicaKey | None
    high_watermark: int | None
    votes: Votes
    election_deadline_ms: int

    name = "Prospective"

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return can_grant(key, self.voted_key, self.leader_id, up_to_date=up_to_date, pre_vote=pre_vote)
