"""Vote: requests a vote, or with `pre_vote` asks whether it would be granted (Raft 5.2; KIP-595, KIP-996).

Errors: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for another partition or an impossible end of the log;
FENCED_LEADER_EPOCH for an epoch below this replica's; INVALID_VOTER_KEY if it is meant for another replica.
Version 1 adds directory ids, the voter's key and the leader's endpoints (KIP-853), version 2 pre-votes (KIP-996).
"""

import logging

from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import Node, ReplicaKey
from cordwood.raft.log import OffsetAndEpoch
from cordwood.raft.replica import Replica
from cordwood.raft.states import Candidate, Prospective, Unattached
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.vote import (
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
    VoteRequest,
    VoteResponse,
)

from .common import (
    PARTITION,
    TOPIC,
    accepted,
    has_cluster_id,
    is_meant_for,
    leader_endpoint,
    leader_id_or_none,
    only_partition,
    respond,
    voter_only_error,
)

logger = logging.getLogger(__name__)


def vote_request(replica: Replica, voter: ReplicaKey, *, pre_vote: bool) -> VoteRequest:
    local, end = replica.config.local.key, replica.log.end
    partition = RequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=replica.quorum.epoch,
        replica_id=local.id,
        replica_directory_id=local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=pre_vote,
    )
    topic = RequestTopicData(topic_name=TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=replica.config.cluster_id, voter_id=voter.id, topics=[topic])


def answer_vote(replica: Replica, received: RequestReceived, request: VoteRequest, now: int) -> None:
    if not has_cluster_id(replica, request.cluster_id):
        return respond(replica, received, VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    asked = only_partition(request.topics)
    if asked is None:
        return respond(replica, received, VoteResponse(error_code=ErrorCode.INVALID_REQUEST))
    error, granted = _decide(replica, request.voter_id, asked, now)
    return respond(replica, received, _response(replica, received, error, granted))


def _decide(replica: Replica, voter_id: int, asked: RequestPartitionData, now: int) -> tuple[ErrorCode, bool]:
    end = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)
    # A candidate's epoch is new and can't have records yet; a pre-vote is for the epoch before.
    is_impossible = end.epoch > asked.replica_epoch or (end.epoch == asked.replica_epoch and not asked.pre_vote)
    if end.offset < 0 or end.epoch < 0 or is_impossible:
        return ErrorCode.INVALID_REQUEST, False
    error = voter_only_error(replica, asked.replica_id, asked.replica_epoch)
    if error is not ErrorCode.NONE:
        return error, False
    quorum = replica.quorum
    if asked.replica_epoch > quorum.epoch:
        replica.become_unattached(asked.replica_epoch, None, now)
    if not is_meant_for(replica, ReplicaKey(voter_id, asked.voter_directory_id)):
        return ErrorCode.INVALID_VOTER_KEY, False

    candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
    state = quorum.state
    granted = state.can_grant_vote(candidate, up_to_date=not end.is_behind(replica.log.end), pre_vote=asked.pre_vote)
    if granted and asked.pre_vote:
        quorum.let_go_ahead(now)
    if asked.pre_vote and not granted and isinstance(state, Prospective):
        # It has lost the leader too, and the longer log is here.
        state.votes.ask_again(candidate.id)
    if granted and not asked.pre_vote and isinstance(state, Unattached | Prospective) and state.voted_key is None:
        quorum.add_vote(asked.replica_epoch, candidate, now)
    return ErrorCode.NONE, granted


def _response(replica: Replica, received: RequestReceived, error: ErrorCode, granted: bool) -> VoteResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_none(replica),
        leader_epoch=replica.quorum.epoch,
        vote_granted=granted,
    )
    response = VoteResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    if received.version >= 1:
        response.node_endpoints = [NodeEndpoint(**fields) for fields in leader_endpoint(replica, received)]
    return response


def take_vote(replica: Replica, response: VoteResponse, source: Node, now: int) -> bool:
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and isinstance(replica.quorum.state, Prospective):
        # A voter that knows no pre-votes: ask for a vote as before KIP-996.
        replica.become_candidate(now)
        return True
    answer = accepted(replica, response, source, now)
    if isinstance(answer, bool):
        return answer
    state = replica.quorum.state
    if isinstance(state, Prospective | Candidate):
        state.votes.record(source.id, answer.vote_granted)
        replica.advance_election(now)
        if isinstance(state, Prospective) and state.votes.is_lost:
            give_up_pre_vote(replica, state, now)
        else:
            replica.quorum.shorten_hopeless_election(now)
    return True


def give_up_pre_vote(replica: Replica, state: Prospective, now: int) -> None:
    """Goes back to the leader of the epoch, if it is known, or waits for another."""
    if state.leader_id is not None and state.leader_endpoints:
        replica.become_follower(state.epoch, state.leader_id, state.leader_endpoints, now)
    else:
        replica.become_unattached(state.epoch, state.leader_id, now)
