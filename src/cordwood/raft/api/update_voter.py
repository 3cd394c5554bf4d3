"""UpdateRaftVoter: a voter tells the leader its endpoints and its kraft.version range (KIP-853).

With kraft.version 1 the leader appends changed voters. With 0, where voters aren't in the log, it keeps them in memory:
an upgrade to 1 needs the directory id of every voter. It doesn't wait for a commit.

Errors: INCONSISTENT_CLUSTER_ID; those of a leader's request; INVALID_REQUEST without a directory id, an endpoint of
the controller listener, or a range that fits; VOTER_NOT_FOUND; REQUEST_TIMED_OUT while another change is pending or
nothing of this epoch is committed.
"""

from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import NO_DIRECTORY, Node, ReplicaKey, VersionRange
from cordwood.raft.replica import Replica, voters_record
from cordwood.raft.states import Follower, Leader
from cordwood.raft.voters import VoterNode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.update_raft_voter import (
    CurrentLeader,
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

from .common import (
    has_cluster_id,
    leader_id_or_none,
    leader_only_error,
    listener_map,
    respond,
    take_common_response,
    unexpected,
)
from .voter_changes import cannot_change


def update_voter_request(replica: Replica) -> UpdateRaftVoterRequest:
    local = replica.config.local
    return UpdateRaftVoterRequest(
        cluster_id=replica.config.cluster_id,
        current_leader_epoch=replica.quorum.epoch,
        voter_id=local.key.id,
        voter_directory_id=local.key.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, (host, port) in local.endpoints.items()],
        k_raft_version_feature=KRaftVersionFeature(
            min_supported_version=local.kraft_versions.low, max_supported_version=local.kraft_versions.high
        ),
    )


def answer_update_voter(replica: Replica, received: RequestReceived, request: UpdateRaftVoterRequest, now: int) -> None:
    error = _update(replica, request, now)
    address = replica.quorum.state.leader_endpoints.get(received.listener)
    leader = CurrentLeader(leader_id=leader_id_or_none(replica), leader_epoch=replica.quorum.epoch)
    if address is not None:
        leader.host, leader.port = address
    respond(replica, received, UpdateRaftVoterResponse(error_code=error, current_leader=leader))


def _update(replica: Replica, request: UpdateRaftVoterRequest, now: int) -> ErrorCode:
    if not has_cluster_id(replica, request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    error = leader_only_error(replica, request.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return error
    key, endpoints = ReplicaKey(request.voter_id, request.voter_directory_id), listener_map(request.listeners)
    feature = request.k_raft_version_feature
    versions = VersionRange(feature.min_supported_version, feature.max_supported_version)
    has_valid_versions = 0 <= versions.low <= versions.high
    has_valid_key = key.id >= 0 and key.directory_id != NO_DIRECTORY
    if not has_valid_key or replica.config.listener not in endpoints or not has_valid_versions:
        return ErrorCode.INVALID_REQUEST
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    refused = cannot_change(replica, leader, now)
    if refused is not None and refused[0] is not ErrorCode.UNSUPPORTED_VERSION:
        return refused[0]
    if replica.control.kraft_version not in versions:
        return ErrorCode.INVALID_REQUEST
    voter = VoterNode(key, endpoints, versions)
    if replica.control.supports_reconfiguration:
        updated = replica.control.voters.updated(voter)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        replica.append_control([voters_record(updated)], now)
    else:
        if leader.volatile_voters is None:
            return ErrorCode.REQUEST_TIMED_OUT
        updated = leader.volatile_voters.updated_by_id(voter)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        leader.volatile_voters = updated
    leader.heard_from(key, now)
    return ErrorCode.NONE


def take_update_voter(replica: Replica, response: UpdateRaftVoterResponse, source: Node, now: int) -> bool:
    leader = response.current_leader
    nodes = [_LeaderNode(leader.leader_id, leader.host, leader.port)] if leader.host else []
    handled = take_common_response(
        replica, response.error_code, leader.leader_id, leader.leader_epoch, nodes, source, now
    )
    if handled is not None:
        return handled
    if response.error_code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return unexpected(response.error_code, source)
    state = replica.quorum.state
    if isinstance(state, Follower):
        state.has_updated_leader = True
        state.fetch_deadline_ms = now + replica.config.quorum.fetch_timeout_ms
        state.has_fetched = True
    return True


class _LeaderNode:
    """The leader as other responses name it."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id, self.host, self.port = node_id, host, port
