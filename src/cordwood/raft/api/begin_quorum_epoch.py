"""BeginQuorumEpoch: the leader of a new epoch tells the voters, until they fetch from it (KIP-595).

Errors as those of Vote. Version 1 adds directory ids, the voter's key and the leader's endpoints (KIP-853).
"""

from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import Node, ReplicaKey
from cordwood.raft.replica import Replica
from cordwood.raft.states import Leader
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    LeaderEndpoint,
    NodeEndpoint,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
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
    request_endpoints,
    respond,
    voter_only_error,
)


def begin_quorum_epoch_request(replica: Replica, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    partition = RequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=replica.config.local.key.id,
        leader_epoch=replica.quorum.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        voter_id=voter.id,
        topics=[RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            LeaderEndpoint(name=name, host=host, port=port)
            for name, (host, port) in replica.config.local.endpoints.items()
        ],
    )


def answer_begin_quorum_epoch(
    replica: Replica, received: RequestReceived, request: BeginQuorumEpochRequest, now: int
) -> None:
    if not has_cluster_id(replica, request.cluster_id):
        return respond(replica, received, BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    begun = only_partition(request.topics)
    if begun is None:
        return respond(replica, received, BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST))
    error = voter_only_error(replica, begun.leader_id, begun.leader_epoch)
    if error is ErrorCode.NONE:
        endpoints = request_endpoints(replica, begun.leader_id, request.leader_endpoints)
        replica.follow(begun.leader_id, begun.leader_epoch, endpoints, now)
        if not is_meant_for(replica, ReplicaKey(request.voter_id, begun.voter_directory_id)):
            error = ErrorCode.INVALID_VOTER_KEY
    return respond(replica, received, _response(replica, received, error))


def _response(replica: Replica, received: RequestReceived, error: ErrorCode) -> BeginQuorumEpochResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_none(replica),
        leader_epoch=replica.quorum.epoch,
    )
    response = BeginQuorumEpochResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    if received.version >= 1:
        response.node_endpoints = [NodeEndpoint(**fields) for fields in leader_endpoint(replica, received)]
    return response


def take_begin_quorum_epoch(replica: Replica, response: BeginQuorumEpochResponse, source: Node, now: int) -> bool:
    answer = accepted(replica, response, source, now)
    if isinstance(answer, bool):
        return answer
    state = replica.quorum.state
    if isinstance(state, Leader) and source.id in state.voters:
        state.voters[source.id].has_acknowledged_leader = True
    return True
