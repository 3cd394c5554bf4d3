"""Leader: appends, serves fetches, and commits."""

from dataclasses import dataclass, field

from cordwood.raft.config import QuorumConfig
from cordwood.raft.election_state import ElectionState
from cordwood.raft.identity import Endpoints, ReplicaKey
from cordwood.raft.voters import VoterNode, VoterSet

from .replica_progress import ReplicaProgress

OBSERVER_SESSION_TIMEOUT_MS = 300_000
# Decisions that come within this time of each other are a series. Then the high watermark is not sent by itself for a
# moment, since the next records take it along: that halves the fetches.
SERIES_MS = 20
HIGH_WATERMARK_LINGER_MS = 5
# A replica is caught up enough to become a voter if it once was at the end of the log and fetched within this time.
CAUGHT_UP_FETCH_MS = 3_600_000


@dataclass(slots=True)
class PendingVoterChange:
    """An AddRaftVoter or RemoveRaftVoter that waits for the new voter's answer or for its commit."""

    # None once it is answered.
    request_id: int | None
    deadline_ms: int
    # The voter to add, None for a removal.
    voter: VoterNode | None = None
    acknowledge_when_committed: bool = True
    # The offset of the voters record, once that is appended.
    offset: int | None = None


@dataclass(slots=True)
class Leader:
    """The one leader of its epoch, until it sees a higher one or resigns.

    - Its epoch begins with a LeaderChange record at `epoch_start_offset`. Nothing is committed before that record, even
      if a majority has it (Raft 5.4.2).
    - The high watermark is the largest offset up to which a majority of the voters has its log flushed. The leader
      counts its own flushed end, and only while it is a voter. Observers don't count.
    - Sends a new high watermark at once, or with the next records if decisions come in a series.
    - Sends BeginQuorumEpoch to voters that haven't fetched lately.
    - Resigns if it doesn't hear from a majority for 1.5 times the fetch timeout (check quorum).
    - Changes the voters one at a time, each change committed before the next.
    """

    epoch: int
    local: VoterNode
    epoch_start_offset: int
    granting_voters: list[int]
    config: QuorumConfig
    check_quorum_deadline_ms: int
    begin_quorum_epoch_deadline_ms: int
    high_watermark: int | None = None
    voters: dict[int, ReplicaProgress] = field(default_factory=dict)
    observers: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    pending_change: PendingVoterChange | None = None
    resign_requested: bool = False
    # With kraft.version 0: the voters with the updates they have sent; None once an upgrade is appended.
    volatile_voters: VoterSet | None = None
    _heard_voters: set[int] = field(default_factory=set)
    # Of the latest decision and the one before.
    _decided_ms: tuple[int, int] = (-SERIES_MS, -2 * SERIES_MS)

    name = "Leader"

    @property
    def leader_id(self) -> int:
        return self.local.key.id

    @property
    def voted_key(self) -> None:
        return None

    @property
    def leader_endpoints(self) -> Endpoints:
        return self.local.endpoints

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.local.key.id)

    def can_grant_vote(self, key: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return False

    # Progress

    def progress_of(self, key: ReplicaKey) -> ReplicaProgress:
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            return voter
        return self.observers.setdefault(key, ReplicaProgress(key))

    def flushed(self, offset: int) -> bool:
        """Counts the leader's records on stable storage; True if the high watermark moved."""
        self.progress_of(self.local.key).end_offset = offset
        return self._advance_high_watermark()

    def fetched(self, key: ReplicaKey, offset: int, leader_end_offset: int, now: int) -> bool:
        """Counts a fetch; True if the high watermark moved."""
        self.progress_of(key).fetched(now, offset, leader_end_offset)
        self.heard_from(key, now)
        return self.is_voter(key) and self._advance_high_watermark()

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def use_voters(self, voters: VoterSet) -> None:
        """Regroups the replicas into voters and observers."""
        former = self.voters
        self.voters = {}
        for voter in voters:
            known = former.get(voter.key.id)
            if known is not None and known.key.matches(voter.key):
                del former[voter.key.id]
            else:
                known = self.observers.get(voter.key) or ReplicaProgress(voter.key)
            self.observers.pop(voter.key, None)
            known.key, known.endpoints = voter.key, voter.endpoints
            self.voters[voter.key.id] = known
        for progress in former.values():
            progress.endpoints = {}
            self.observers.setdefault(progress.key, progress)

    def is_caught_up(self, key: ReplicaKey, now: int) -> bool:
        observer = self.observers.get(key)
        return (
            observer is not None
            and observer.last_caught_up_ms > 0
            and observer.last_fetch_ms > max(0, now - CAUGHT_UP_FETCH_MS)
        )

    def active_observers(self, now: int) -> list[ReplicaProgress]:
        for key, observer in list(self.observers.items()):
            if now - observer.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS and key != self.local.key:
                del self.observers[key]
        return sorted(self.observers.values(), key=lambda observer: observer.key)

    def successors(self) -> list[ReplicaKey]:
        """The other voters, the most up to date first."""
        ranked = sorted(self.voters.values(), key=lambda voter: voter.rank)
        return [voter.key for voter in ranked if not voter.key.matches(self.local.key)]

    def decided(self, now: int) -> None:
        self._decided_ms = (now, self._decided_ms[0])

    def expects_decision(self, now: int) -> bool:
        """True while decisions come in a series."""
        last, before = self._decided_ms
        return now - last < SERIES_MS and last - before < SERIES_MS

    def _advance_high_watermark(self) -> bool:
        end_offsets = [-1 if voter.end_offset is None else voter.end_offset for voter in self.voters.values()]
        end_offsets.sort(reverse=True)
        majority_has = end_offsets[len(end_offsets) // 2]
        if majority_has <= self.epoch_start_offset:
            return False
        # It can be lower after a change of the voters.
        if self.high_watermark is not None and majority_has <= self.high_watermark:
            return False
        self.high_watermark = majority_has
        return True

    # Check quorum

    def heard_from(self, key: ReplicaKey, now: int) -> None:
        """Counts a voter that fetches; a majority puts off the leader's resignation."""
        if self.is_voter(key) and key.id != self.local.key.id:
            self._heard_voters.add(key.id)
        needed = len(self.voters) // 2 + 1
        if self.local.key.id in self.voters:
            needed -= 1
        if len(self._heard_voters) >= needed:
            self._heard_voters.clear()
            self.check_quorum_deadline_ms = now + self.config.check_quorum_timeout_ms

    def has_lost_quorum(self, now: int) -> bool:
        is_alone = len(self.voters) == 1 and self.local.key.id in self.voters
        return not is_alone and now >= self.check_quorum_deadline_ms

    def silent_voters(self, now: int) -> list[ReplicaKey]:
        """The other voters that may not know the leader yet."""
        timeout_ms = self.config.begin_quorum_epoch_timeout_ms
        others = (voter for voter in self.voters.values() if voter.key.id != self.local.key.id)
        return [voter.key for voter in others if voter.last_fetch_ms < 0 or now - voter.last_fetch_ms >= timeout_ms]
