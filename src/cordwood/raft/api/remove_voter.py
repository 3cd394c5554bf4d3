"""RemoveRaftVoter: the leader removes a voter, possibly itself (KIP-853).

The leader appends the new voters and answers when they are committed. A leader that removed itself continues until
then, without counting itself, and resigns. Errors as those of AddRaftVoter, and VOTER_NOT_FOUND, also for the only
voter.
"""

import logging

from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import NO_DIRECTORY, Node, ReplicaKey
from cordwood.raft.replica import Replica, voters_record
from cordwood.raft.states import Follower, Leader
from cordwood.raft.states.leader import PendingVoterChange
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

from .common import has_cluster_id, leader_only_error, respond, unexpected
from .voter_changes import ErrorAndMessage, cannot_change

logger = logging.getLogger(__name__)


def remove_voter_request(replica: Replica, voter: ReplicaKey) -> RemoveRaftVoterRequest:
    """A replica that lost its disk asks for its former self to be removed, so that it can rejoin."""
    return RemoveRaftVoterRequest(
        cluster_id=replica.config.cluster_id, voter_id=voter.id, voter_directory_id=voter.directory_id
    )


def answer_remove_voter(replica: Replica, received: RequestReceived, request: RemoveRaftVoterRequest, now: int) -> None:
    refused = _begin(replica, received, request, now)
    if refused is not None:
        respond(replica, received, RemoveRaftVoterResponse(error_code=refused[0], error_message=refused[1]))


def _begin(
    replica: Replica, received: RequestReceived, request: RemoveRaftVoterRequest, now: int
) -> ErrorAndMessage | None:
    if not has_cluster_id(replica, request.cluster_id):
        ours = replica.config.cluster_id
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f"The cluster id is {ours!r}, not {request.cluster_id!r}"
    error = leader_only_error(replica, replica.quorum.epoch)
    if error is not ErrorCode.NONE:
        return error, "Only the active controller changes the voters"
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id == NO_DIRECTORY:
        return ErrorCode.INVALID_REQUEST, "A voter to remove is named by its node id and its directory id"
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    refused = cannot_change(replica, leader, now)
    if refused is not None:
        return refused
    voters = replica.control.voters.without_voter(key)
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND, f"{key} is not a voter: {replica.control.voters}"
    if not len(voters):
        return ErrorCode.VOTER_NOT_FOUND, f"{key} is the only voter; add another one first"
    logger.info("Removing voter %s from %s", key, replica.control.voters)
    offset = replica.append_control([voters_record(voters)], now)
    deadline = now + replica.config.quorum.request_timeout_ms
    leader.pending_change = PendingVoterChange(received.request_id, deadline, offset=offset)
    return None


def take_remove_voter(replica: Replica, response: RemoveRaftVoterResponse, source: Node, now: int) -> bool:
    settled = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.VOTER_NOT_FOUND)
    if response.error_code not in settled:
        return unexpected(response.error_code, source)
    if isinstance(replica.quorum.state, Follower):
        replica.quorum.state.update_voter_deadline_ms = now + replica.config.quorum.fetch_timeout_ms
    return True
