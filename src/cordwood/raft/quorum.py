"""The state of this replica, and its transitions.

Each transition asserts that it is legal, makes the new state, and returns `PersistQuorumState` to the outbox if what
the `quorum-state` file says changes: epoch, leader or vote. So the file is durable before anything that follows.
"""

from cordwood.runtime.randomness import Random

from .config import QuorumConfig
from .control_state import ControlState
from .effects import Effect, PersistQuorumState
from .election_state import ElectionState
from .identity import Endpoint, Endpoints, Node, ReplicaKey
from .log import OffsetAndEpoch
from .states import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from .states.replica_progress import ReplicaProgress
from .states.votes import Votes
from .voters import VoterNode

# Within this time after its loss a voter asks for pre-votes.
LEADER_LOSS_JITTER_MS = 100


class Quorum:
    def __init__(
        self,
        local: VoterNode,
        config: QuorumConfig,
        control: ControlState,
        random: Random,
        outbox: list[Effect],
    ) -> None:
        self.local = local
        self._config = config
        self._control = control
        self._random = random
        self._outbox = outbox
        self._persisted: bytes | None = None
        # The highest high watermark that this replica has seen since it started.
        self._committed = 0
        self.state: State = Unattached(0, None, None, None, None)

    def initialize(self, election: ElectionState, log_end: OffsetAndEpoch, now: int) -> None:
        """Goes on as the replica was when it stopped; a leader as Resigned."""
        voters = self._control.voters
        if election.epoch < log_end.epoch:
            self._become_durably(Unattached(log_end.epoch, None, None, None, self._election_deadline(now)))
        elif self.is_eligible and election == ElectionState() and log_end.offset == 0:
            # There is no leader to hear from: the cluster is new. If it is only this replica that is new, the others
            # have longer logs and deny the pre-vote.
            self._become_durably(Unattached(0, None, None, None, self._soon(now)))
        elif election.leader_id == self.local.key.id:
            self._become_durably(self._resigned(election.epoch, [], now))
        elif election.voted_for(self.local.key) and election.leader_id is None and self.is_eligible:
            votes = Votes(voters.keys, self.local.key.id)
            deadline = self._random_election_deadline(now)
            self._become_durably(Candidate(election.epoch, self.local.key, None, votes, deadline))
        elif election.leader_id is not None and voters.endpoints(election.leader_id):
            endpoints = voters.endpoints(election.leader_id)
            self._become_durably(
                self._follower(election.epoch, election.leader_id, endpoints, election.voted_key, None, now)
            )
        else:
            self._become_durably(
                Unattached(election.epoch, election.leader_id, election.voted_key, None, self._election_deadline(now))
            )

    # State

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        return self.state.leader_id

    @property
    def is_voter(self) -> bool:
        return self._control.voters.is_voter(self.local.key)

    @property
    def is_eligible(self) -> bool:
        """True if this replica may be elected: a voter, or one whose removal, in its log, is not known to be committed.

        The removed replica may be the only one with the record of its removal. Without it no replica could be elected:
        the others need its vote and have the shorter log (Raft dissertation, 4.2.2).
        """
        if self.is_voter:
            return True
        offset, former = self._control.voters_offset, self._control.former_voters
        return (
            offset is not None and offset >= self._committed and former is not None and former.is_voter(self.local.key)
        )

    @property
    def is_only_voter(self) -> bool:
        return self._control.voters.is_only_voter(self.local.key)

    @property
    def has_remote_leader(self) -> bool:
        return self.leader_id is not None and self.leader_id != self.local.key.id

    def committed(self, high_watermark: int) -> bool:
        """Notes the high watermark; True if it is a new one."""
        if high_watermark <= self._committed:
            return False
        self._committed = high_watermark
        return True

    @property
    def has_committed(self) -> bool:
        """True once this replica has seen a quorum work."""
        return self._committed > 0

    # Transitions

    def become_unattached(self, epoch: int, leader_id: int | None, now: int) -> None:
        """A higher epoch was seen, or the pre-votes of this one are lost."""
        state = self.state
        assert epoch > state.epoch or (epoch == state.epoch and isinstance(state, Prospective)), (epoch, state)
        keeps_timeout = isinstance(state, Candidate | Unattached | Resigned) or (
            isinstance(state, Prospective) and not state.votes.is_lost
        )
        if not self.is_eligible:
            deadline = None
        elif keeps_timeout and not isinstance(state, Follower | Leader) and state.election_deadline_ms is not None:
            deadline = max(state.election_deadline_ms, now)
        else:
            deadline = self._election_deadline(now)
        voted_key = state.voted_key if epoch == state.epoch else None
        self._become_durably(Unattached(epoch, leader_id, voted_key, state.high_watermark, deadline))

    def add_vote(self, epoch: int, candidate: ReplicaKey, now: int) -> None:
        """Votes for another replica, once in an epoch. The election timeout restarts, since that replica may well
        win."""
        state = self.state
        assert isinstance(state, Unattached | Prospective), state
        assert epoch == state.epoch, (epoch, state)
        assert state.voted_key is None, state
        assert candidate.id != self.local.key.id, candidate
        deadline = self._random_election_deadline(now)
        if isinstance(state, Unattached):
            voted: State = Unattached(epoch, state.leader_id, candidate, state.high_watermark, deadline)
        else:
            votes = Votes(self._control.voters.keys, self.local.key.id)
            voted = Prospective(
                epoch, state.leader_id, state.leader_endpoints, candidate, state.high_watermark, votes, deadline
            )
        self._become_durably(voted)

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now: int) -> None:
        """The leader of this epoch or of a higher one is known, or more of its endpoints are."""
        state = self.state
        assert endpoints, f"leader {leader_id} of epoch {epoch} has no known endpoint"
        assert leader_id != self.local.key.id, (leader_id, epoch)
        assert epoch >= state.epoch, (epoch, state)
        if epoch == state.epoch:
            assert not isinstance(state, Leader), state
            assert not isinstance(state, Follower) or len(state.leader_endpoints) < len(endpoints), state
        voted_key = state.voted_key if epoch == state.epoch else None
        self._become_durably(self._follower(epoch, leader_id, endpoints, voted_key, state.high_watermark, now))

    def unreachable(self, node: Node, now: int) -> None:
        """A node's address refuses connections. A voter of that leader need not wait for the fetch timeout:
        it asks for pre-votes soon, and grants them. The time is random, so that one voter is ahead of the others."""
        state = self.state
        if isinstance(state, Follower) and Endpoint(node.host, node.port) in state.leader_endpoints.values():
            state.has_fetched = False
            jitter_ms = self._random.below(LEADER_LOSS_JITTER_MS)
            state.fetch_deadline_ms = min(state.fetch_deadline_ms, now + jitter_ms)
        elif isinstance(state, Prospective | Candidate):
            state.votes.unreachable(node.id)
            self.shorten_hopeless_election(now)

    def shorten_hopeless_election(self, now: int) -> None:
        """A voter that can't win while others are down retries soon, at a random time: the remaining voters may have
        noticed the leader's death at different times, or have voted for themselves in the same epoch."""
        state = self.state
        if isinstance(state, Prospective | Candidate) and state.votes.is_hopeless:
            state.election_deadline_ms = min(state.election_deadline_ms, self._soon(now))

    def let_go_ahead(self, now: int) -> None:
        """Another voter has this one's pre-vote: two candidates at once would split the votes."""
        state, until = self.state, now + LEADER_LOSS_JITTER_MS
        if isinstance(state, Follower):
            state.fetch_deadline_ms = max(state.fetch_deadline_ms, until)
        elif isinstance(state, Unattached) and state.election_deadline_ms is not None:
            state.election_deadline_ms = max(state.election_deadline_ms, until)

    def become_prospective(self, now: int) -> None:
        """The election or fetch timeout expired. Nothing that the file says changes."""
        state = self.state
        assert self.is_eligible, self.local.key
        assert not isinstance(state, Leader | Prospective), state
        votes = Votes(self._control.voters.keys, self.local.key.id)
        deadline = self._random_election_deadline(now)
        self.state = Prospective(
            state.epoch,
            state.leader_id,
            state.leader_endpoints,
            state.voted_key,
            state.high_watermark,
            votes,
            deadline,
        )

    def become_candidate(self, now: int) -> None:
        """A majority granted the pre-vote: a new epoch, with a vote for itself."""
        state = self.state
        assert self.is_eligible, self.local.key
        assert isinstance(state, Prospective), state
        votes = Votes(self._control.voters.keys, self.local.key.id)
        deadline = self._random_election_deadline(now)
        self._become_durably(Candidate(state.epoch + 1, self.local.key, state.high_watermark, votes, deadline))

    def become_leader(self, epoch_start_offset: int, now: int) -> Leader:
        """A majority granted the vote.

        The leader doesn't keep the high watermark: only a majority that has reached its epoch shows one that is not
        below what an earlier leader has exposed.
        """
        state = self.state
        assert self.is_eligible, self.local.key
        assert isinstance(state, Candidate), state
        assert state.votes.is_won, state
        voters = self._control.voters
        leader = Leader(
            state.epoch,
            self.local,
            epoch_start_offset,
            state.votes.granting,
            self._config,
            check_quorum_deadline_ms=now + self._config.check_quorum_timeout_ms,
            begin_quorum_epoch_deadline_ms=now,
            voters={voter.key.id: ReplicaProgress(voter.key, voter.endpoints) for voter in voters},
        )
        leader.progress_of(self.local.key).has_acknowledged_leader = True
        if not self._control.supports_reconfiguration:
            leader.volatile_voters = voters.updated_by_id(self.local)
        self._become_durably(leader)
        return leader

    def become_resigned(self, now: int) -> None:
        """The leader resigns. The file still names it: after a restart it is Resigned too."""
        state = self.state
        assert isinstance(state, Leader), state
        self.state = self._resigned(state.epoch, state.successors(), now)

    # Their parts

    def _become_durably(self, state: State) -> None:
        data = state.election().encode(self._control.kraft_version, self._control.voters.ids)
        if data != self._persisted:
            self._persisted = data
            if self._outbox and isinstance(self._outbox[-1], PersistQuorumState):
                # Nothing was done in between that could have relied on it.
                self._outbox.pop()
            self._outbox.append(PersistQuorumState(data))
        self.state = state

    def _follower(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted_key: ReplicaKey | None,
        high_watermark: int | None,
        now: int,
    ) -> Follower:
        deadline = now + self._config.fetch_timeout_ms
        return Follower(epoch, leader_id, endpoints, voted_key, high_watermark, deadline, deadline)

    def _resigned(self, epoch: int, successors: list[ReplicaKey], now: int) -> Resigned:
        others = {voter_id for voter_id in self._control.voters.ids if voter_id != self.local.key.id}
        deadline = self._random_election_deadline(now)
        return Resigned(epoch, self.local.key, self.local.endpoints, others, successors, deadline)

    def _election_deadline(self, now: int) -> int | None:
        return self._random_election_deadline(now) if self.is_eligible else None

    def _soon(self, now: int) -> int:
        """A deadline for an election that need not wait, at random, so that one voter is ahead of the others."""
        return now + LEADER_LOSS_JITTER_MS // 2 + self._random.below(LEADER_LOSS_JITTER_MS)

    def _random_election_deadline(self, now: int) -> int:
        timeout_ms = self._config.election_timeout_ms
        return now + timeout_ms + (self._random.below(timeout_ms) if timeout_ms else 0)
