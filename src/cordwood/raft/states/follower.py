"""Follower: fetches from the leader of its epoch."""

from dataclasses import dataclass, field

from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, Node, ReplicaKey
from cordwood.raft.log import OffsetAndEpoch


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched, piece by piece."""

    id: OffsetAndEpoch
    size: int = 0
    # The first bytes, which name the voters.
    opening: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Follower:
    """A voter or observer that knows the leader of its epoch and where to reach it.

    - Fetches records or a snapshot. Each fetch acknowledges everything before its offset, so a replica that counts
      fetches only after its log has been flushed.
    - A voter without a successful fetch for the fetch timeout becomes Prospective, and sooner if the leader's address
      refuses connections; an observer looks for another leader at the bootstrap servers.
    - Gives no vote. It grants a pre-vote only before its first successful fetch: afterwards it has a leader that works
      (KIP-996), until that leader's address refuses connections.
    """

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    voted_key: ReplicaKey | None
    high_watermark: int | None
    fetch_deadline_ms: int
    update_voter_deadline_ms: int
    has_fetched: bool = False
    # With kraft.version 0: this leader knows this voter's directory and endpoints.
    has_updated_leader: bool = False
    snapshot: SnapshotFetch | None = None
    # The leader's last high watermark; it is capped by this replica's flushed end.
    leader_high_watermark: int = -1

    name = "Follower"

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date and not self.has_fetched

    def leader_node(self, listener: str) -> Node | None:
        address = self.leader_endpoints.get(listener)
        return Node(self.leader_id, *address) if address is not None else None
