"""AddRaftVoter: the leader adds an observer to the voters (KIP-853; without waiting for the commit, KIP-1186).

The leader asks the new voter for its kraft.version range with ApiVersions, checks that it has caught up, and appends
the new voters. It answers when they are committed, or with `ack_when_committed=false` when they are appended.

Errors: INCONSISTENT_CLUSTER_ID; those of a leader's request; INVALID_REQUEST without a directory id or an endpoint of
the controller listener, or if the new voter's range doesn't fit; DUPLICATE_VOTER; UNSUPPORTED_VERSION with
kraft.version 0; REQUEST_TIMED_OUT while another change is pending, nothing of this epoch is committed, or the new
voter lags or can't be reached.
"""

import logging

from cordwood import __version__
from cordwood.raft.effects import Respond
from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import NO_DIRECTORY, Node, ReplicaKey, VersionRange
from cordwood.raft.replica import KRAFT_VERSION_FEATURE, Replica, voters_record
from cordwood.raft.states import Follower, Leader
from cordwood.raft.states.leader import PendingVoterChange
from cordwood.raft.voters import VoterNode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

from .common import has_cluster_id, leader_only_error, listener_map, respond, unexpected
from .voter_changes import ErrorAndMessage, cannot_change, end_change

logger = logging.getLogger(__name__)


def add_voter_request(replica: Replica) -> AddRaftVoterRequest:
    """Lets an observer ask to become a voter (`controller.quorum.auto.join.enable`)."""
    local = replica.config.local
    return AddRaftVoterRequest(
        cluster_id=replica.config.cluster_id,
        timeout_ms=replica.config.quorum.request_timeout_ms,
        voter_id=local.key.id,
        voter_directory_id=local.key.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, (host, port) in local.endpoints.items()],
        ack_when_committed=False,
    )


def answer_add_voter(replica: Replica, received: RequestReceived, request: AddRaftVoterRequest, now: int) -> None:
    refused = _begin(replica, received, request, now)
    if refused is not None:
        respond(replica, received, AddRaftVoterResponse(error_code=refused[0], error_message=refused[1]))


def _begin(
    replica: Replica, received: RequestReceived, request: AddRaftVoterRequest, now: int
) -> ErrorAndMessage | None:
    if not has_cluster_id(replica, request.cluster_id):
        ours = replica.config.cluster_id
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f"The cluster id is {ours!r}, not {request.cluster_id!r}"
    error = leader_only_error(replica, replica.quorum.epoch)
    if error is not ErrorCode.NONE:
        return error, "Only the active controller changes the voters"
    key, endpoints = ReplicaKey(request.voter_id, request.voter_directory_id), listener_map(request.listeners)
    if key.id < 0 or key.directory_id == NO_DIRECTORY:
        return ErrorCode.INVALID_REQUEST, "A new voter needs a node id and a directory id"
    address = endpoints.get(replica.config.listener)
    if address is None:
        names = ", ".join(endpoints) or "none"
        return (
            ErrorCode.INVALID_REQUEST,
            f"A new voter needs an endpoint of {replica.config.listener}, not only {names}",
        )
    leader = replica.quorum.state
    assert isinstance(leader, Leader)
    refused = cannot_change(replica, leader, now)
    if refused is not None:
        return refused
    if replica.control.voters.get(key.id) is not None:
        return ErrorCode.DUPLICATE_VOTER, f"Node {key.id} is a voter already: {replica.control.voters}"
    asked = ApiVersionsRequest(client_software_name="cordwood", client_software_version=__version__)
    if not replica.send(Node(key.id, *address), asked, now):
        return ErrorCode.REQUEST_TIMED_OUT, f"A request to the new voter, {key}, is still in progress"
    deadline = now + replica.config.quorum.request_timeout_ms
    leader.pending_change = PendingVoterChange(
        received.request_id, deadline, VoterNode(key, endpoints), request.ack_when_committed
    )
    return None


def take_api_versions(replica: Replica, response: ApiVersionsResponse, source: Node, now: int) -> bool:
    """Goes on with the addition, now that the new voter's versions are known."""
    leader = replica.quorum.state
    change = leader.pending_change if isinstance(leader, Leader) else None
    if change is None or change.voter is None or change.offset is not None or change.voter.key.id != source.id:
        return True
    assert isinstance(leader, Leader)
    key = change.voter.key
    if response.error_code != ErrorCode.NONE:
        name = ErrorCode(response.error_code).name
        end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, f"The new voter, {key}, can't be asked: {name}")
        return False
    versions = next(
        (
            VersionRange(feature.min_version, feature.max_version)
            for feature in response.supported_features
            if feature.name == KRAFT_VERSION_FEATURE
        ),
        VersionRange(0, 0),
    )
    level = replica.control.kraft_version
    if level not in versions:
        message = f"{key} supports {KRAFT_VERSION_FEATURE} {versions.low} to {versions.high}, but {level} is finalized"
        end_change(replica, leader, ErrorCode.INVALID_REQUEST, message)
    elif not leader.is_caught_up(key, now):
        # Otherwise the high watermark might have to wait for it.
        message = f"{key} lags: it has to fetch up to the end of the log as an observer first"
        end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, message)
    else:
        voters = replica.control.voters.with_voter(change.voter._replace(kraft_versions=versions))
        logger.info("Adding voter %s to %s", key, replica.control.voters)
        change.offset = replica.append_control([voters_record(voters)], now)
        if not change.acknowledge_when_committed and change.request_id is not None:
            replica.outbox.append(Respond(change.request_id, AddRaftVoterResponse()))
            change.request_id = None
    return True


def take_add_voter(replica: Replica, response: AddRaftVoterResponse, source: Node, now: int) -> bool:
    settled = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER)
    if response.error_code not in settled:
        return unexpected(response.error_code, source)
    if isinstance(replica.quorum.state, Follower):
        replica.quorum.state.update_voter_deadline_ms = now + replica.config.quorum.fetch_timeout_ms
    return True
