"""The machine: one event in, effects out."""

from typing import Any

from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from cordwood.wire.messages.api_versions import ApiVersionsResponse
from cordwood.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from cordwood.wire.messages.describe_quorum import DescribeQuorumRequest
from cordwood.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse
from cordwood.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from cordwood.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from cordwood.wire.messages.vote import VoteRequest, VoteResponse
from cordwood.wire.schema import Response

from .api.add_voter import answer_add_voter, take_add_voter, take_api_versions
from .api.begin_quorum_epoch import answer_begin_quorum_epoch, take_begin_quorum_epoch
from .api.describe_quorum import answer_describe_quorum
from .api.end_quorum_epoch import answer_end_quorum_epoch, take_end_quorum_epoch
from .api.fetch import answer_fetch, complete_fetches, expire_fetches, take_fetch, tell_high_watermark
from .api.fetch_snapshot import answer_fetch_snapshot, take_fetch_snapshot
from .api.kraft_version import upgrade_kraft_version
from .api.remove_voter import answer_remove_voter, take_remove_voter
from .api.update_voter import answer_update_voter, take_update_voter
from .api.vote import answer_vote, take_vote
from .api.voter_changes import end_change, high_watermark_moved
from .control_state import ControlState
from .effects import Effect, ProposalAppended, ProposalRefused, ShutdownCompleted
from .election_state import ElectionState
from .events import (
    BeginShutdown,
    Event,
    Flushed,
    LogCleaned,
    Propose,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    SnapshotTaken,
    Tick,
    UpgradeKRaftVersion,
)
from .identity_check import FOREIGN_BACKOFF_MS
from .log import LogState
from .poll import advance, next_deadline, send_requests
from .replica import Replica, ReplicaConfig
from .states import Follower, Leader, State
from .voters import VoterSet

_ANSWERS: dict[type, Any] = {
    AddRaftVoterRequest: answer_add_voter,
    BeginQuorumEpochRequest: answer_begin_quorum_epoch,
    DescribeQuorumRequest: answer_describe_quorum,
    EndQuorumEpochRequest: answer_end_quorum_epoch,
    FetchRequest: answer_fetch,
    FetchSnapshotRequest: answer_fetch_snapshot,
    RemoveRaftVoterRequest: answer_remove_voter,
    UpdateRaftVoterRequest: answer_update_voter,
    VoteRequest: answer_vote,
}
"""By request type: a function of replica, event, request and time that responds, now or later."""

_TAKERS: dict[type, Any] = {
    AddRaftVoterResponse: take_add_voter,
    ApiVersionsResponse: take_api_versions,
    BeginQuorumEpochResponse: take_begin_quorum_epoch,
    EndQuorumEpochResponse: take_end_quorum_epoch,
    FetchResponse: take_fetch,
    FetchSnapshotResponse: take_fetch_snapshot,
    RemoveRaftVoterResponse: take_remove_voter,
    UpdateRaftVoterResponse: take_update_voter,
    VoteResponse: take_vote,
}
"""By response: a function of replica, response, its sender and time; False if the sender should not be asked soon."""


class RaftMachine:
    """A KRaft replica without I/O, clock or randomness.

        control = ControlState.load(log, static_voters)
        machine = RaftMachine(config, LogState.of(log), control, election, random)
        perform(machine.start(now))
        perform(machine.step(event, now))       # for each event, and a Tick at machine.deadline_ms

    See effects.py for the contract of `perform`. Times are in milliseconds and must not go back.
    """

    def __init__(
        self, config: ReplicaConfig, log: LogState, control: ControlState, election: ElectionState, random: Random
    ) -> None:
        self._replica = Replica(config, log, control, random)
        self._initial_election = election
        self._leader: Leader | None = None
        self._is_stopped = False
        self.deadline_ms: int | None = None
        """The time of the next `Tick`, unless an event comes earlier."""

    # Read by others

    @property
    def state(self) -> State:
        return self._replica.quorum.state

    @property
    def epoch(self) -> int:
        return self._replica.quorum.epoch

    @property
    def leader_id(self) -> int | None:
        return self._replica.quorum.leader_id

    @property
    def high_watermark(self) -> int | None:
        return self.state.high_watermark

    def is_caught_up(self, applied_offset: int) -> bool:
        """True if a state machine that has applied the log up to an offset has everything that the current leader is
        known to have committed."""
        state = self.state
        if isinstance(state, Leader):
            return state.high_watermark is not None and applied_offset >= state.high_watermark
        if isinstance(state, Follower):
            return 0 <= state.leader_high_watermark <= applied_offset
        return False

    @property
    def log(self) -> LogState:
        return self._replica.log

    @property
    def voters(self) -> VoterSet:
        return self._replica.control.voters

    @property
    def is_voter(self) -> bool:
        return self._replica.quorum.is_voter

    @property
    def control(self) -> ControlState:
        """The voters and kraft.version as of an offset, which a snapshot's header has to name."""
        return self._replica.control

    # Events

    def start(self, now: int) -> list[Effect]:
        replica = self._replica
        replica.quorum.initialize(self._initial_election, replica.log.end, now)
        if replica.quorum.is_only_voter:
            self._elect_only_voter(now)
        return self._finish(now)

    def step(self, event: Event, now: int) -> list[Effect]:
        if self._is_stopped:
            if isinstance(event, RequestReceived) and isinstance(event.request, FetchRequest):
                # Refused, since a shutdown is in progress. Without an answer the stop would wait for it.
                answer_fetch(self._replica, event, event.request, now)
            return self._finish(now)
        match event:
            case Tick():
                pass
            case RequestReceived(request=request):
                _ANSWERS[type(request)](self._replica, event, request, now)
            case ResponseReceived(correlation_id, response):
                self._take(correlation_id, response, now)
            case RequestFailed(correlation_id, error):
                self._fail(correlation_id, error, now)
            case Flushed(end_offset):
                self._replica.flushed(end_offset)
            case Propose():
                self._propose(event, now)
            case UpgradeKRaftVersion():
                upgrade_kraft_version(self._replica, event, now)
            case SnapshotTaken(snapshot_id, size):
                self._replica.log.snapshots[snapshot_id] = size
                self._replica.control.snapshot_taken(snapshot_id.offset)
            case LogCleaned(start_offset, deleted):
                self._replica.log.cleaned(start_offset, deleted)
            case Resign(epoch):
                if isinstance(self.state, Leader) and self.epoch == epoch:
                    self.state.resign_requested = True
            case BeginShutdown(timeout_ms):
                self._replica.shutdown_deadline_ms = now + timeout_ms
        return self._finish(now)

    def _elect_only_voter(self, now: int) -> None:
        """Makes the single voter the leader of a new epoch, from any state."""
        self._replica.advance_election(now)
        if not isinstance(self.state, Leader):
            self._replica.become_prospective(now)

    def _take(self, correlation_id: int, response: Response, now: int) -> None:
        replica = self._replica
        source = replica.connections.source(correlation_id)
        if source is None:
            return
        is_same_cluster = getattr(response, "error_code", 0) != ErrorCode.INCONSISTENT_CLUSTER_ID
        replica.check_cluster(source, is_same=is_same_cluster)
        if is_same_cluster:
            success = _TAKERS[type(response)](replica, response, source, now)
            replica.connections.answered(correlation_id, success, now)
        else:
            replica.connections.answered(correlation_id, False, now, FOREIGN_BACKOFF_MS)

    def _fail(self, correlation_id: int, error: ErrorCode, now: int) -> None:
        source = self._replica.connections.source(correlation_id)
        if source is None:
            return
        success = False
        if error is ErrorCode.BROKER_NOT_AVAILABLE:
            self._replica.quorum.unreachable(source, now)
        if error is ErrorCode.UNSUPPORTED_VERSION:
            success = take_vote(self._replica, VoteResponse(error_code=error), source, now)
        elif isinstance(self.state, Leader):
            success = take_api_versions(self._replica, ApiVersionsResponse(error_code=error), source, now)
        self._replica.connections.answered(correlation_id, success, now)

    def _propose(self, event: Propose, now: int) -> None:
        if not isinstance(self.state, Leader) or self.epoch != event.epoch or not event.values:
            message = "Nothing to append" if not event.values else f"This node doesn't lead epoch {event.epoch}"
            error = ErrorCode.INVALID_REQUEST if not event.values else ErrorCode.NOT_CONTROLLER
            self._replica.outbox.append(ProposalRefused(event.proposal_id, error, message))
        else:
            last_offset = self._replica.append_values(event.values, now)
            self.state.decided(now)
            self._replica.outbox.append(ProposalAppended(event.proposal_id, last_offset))

    # Consequences

    def _finish(self, now: int) -> list[Effect]:
        replica = self._replica
        self._settle(now)
        while not self._is_stopped and advance(replica, now):
            self._settle(now)
        if not self._is_stopped:
            send_requests(replica, now)
            self.deadline_ms = next_deadline(replica, now)
        effects = list(replica.outbox)
        replica.outbox.clear()
        return effects

    def _settle(self, now: int) -> None:
        """Draws the consequences for requests that wait, for the state machine, and for a shutdown."""
        replica, state = self._replica, self.state
        if self._leader is not None and self._leader is not state:
            end_change(replica, self._leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, "The active controller has changed")
        self._leader = state if isinstance(state, Leader) else None
        if self._leader is None:
            complete_fetches(replica, replica.parked.take_all(), now)
        else:
            complete_fetches(replica, replica.parked.take_below(replica.log.end_offset), now)
            expire_fetches(replica, replica.parked.take_expired(now), now)
            while replica.high_watermark_moved and self._leader.high_watermark is not None:
                replica.high_watermark_moved = False
                replica.commit(self._leader.high_watermark)
                high_watermark_moved(replica, self._leader)
                tell_high_watermark(replica, self._leader, now)
        replica.high_watermark_moved = False
        replica.announce_leader()
        self._complete_shutdown(now)

    def _complete_shutdown(self, now: int) -> None:
        replica, quorum = self._replica, self._replica.quorum
        deadline = replica.shutdown_deadline_ms
        if deadline is None or self._is_stopped:
            return
        is_clean = not quorum.is_voter or quorum.is_only_voter or quorum.has_remote_leader
        if is_clean or now >= deadline:
            self._is_stopped = True
            self.deadline_ms = None
            if self._leader is not None:
                # The only voter can't hand over to another one, and no deadline ends pending requests any more.
                end_change(replica, self._leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, "The active controller is stopping")
                complete_fetches(replica, replica.parked.take_all(), now)
            replica.outbox.append(ShutdownCompleted(is_clean))
