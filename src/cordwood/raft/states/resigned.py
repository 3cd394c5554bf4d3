"""Resigned: led the epoch, and doesn't any more."""

from dataclasses import dataclass

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, ReplicaKey


@dataclass(slots=True)
class Resigned:
    """The former leader of an epoch: it stops, it lost its majority, or it has just restarted.

    - Sends EndQuorumEpoch to the voters until each has acknowledged it, naming the most up-to-date successors.
    - Appends nothing: a restart may have lost unflushed records, and an offset of an epoch stands for one record only.
    - Grants no votes in this epoch, in which it voted for itself.
    - When the election timeout expires it becomes Unattached in the next epoch.
    """

    epoch: int
    local_key: ReplicaKey
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    preferred_successors: list[ReplicaKey]
    election_deadline_ms: int

    name = "Resigned"
    high_watermark = None
    voted_key = None

    @property
    def leader_id(self) -> int:
        return self.local_key.id

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.local_key.id)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
