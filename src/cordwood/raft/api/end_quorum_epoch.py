"""EndQuorumEpoch: a leader that resigns names its preferred successors to the voters (KIP-595).

The first of the preferred candidates starts an election as soon as the others should have received this request too,
the others later and later, so that the one with the longest log usually wins. Errors as those of Vote, without the
voter's key. Version 1 has directory ids.
"""

from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import Node, ReplicaKey
from cordwood.raft.replica import Replica
from cordwood.raft.states import Follower, Resigned
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    LeaderEndpoint,
    NodeEndpoint,
    ReplicaInfo,
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
    leader_endpoint,
    leader_id_or_none,
    only_partition,
    request_endpoints,
    respond,
    voter_only_error,
)

# Until a voter has received this request it denies pre-votes, and the first candidate would have to wait for another
# round.
_HEARD_MS = 20


def end_quorum_epoch_request(replica: Replica, state: Resigned) -> EndQuorumEpochRequest:
    partition = RequestPartitionData(
        partition_index=PARTITION,
        leader_id=replica.config.local.key.id,
        leader_epoch=state.epoch,
        preferred_successors=[key.id for key in state.preferred_successors],
        preferred_candidates=[
            ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in state.preferred_successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        topics=[RequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            LeaderEndpoint(name=name, host=host, port=port)
            for name, (host, port) in replica.config.local.endpoints.items()
        ],
    )


def answer_end_quorum_epoch(
    replica: Replica, received: RequestReceived, request: EndQuorumEpochRequest, now: int
) -> None:
    if not has_cluster_id(replica, request.cluster_id):
        return respond(replica, received, EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    ended = only_partition(request.topics)
    if ended is None:
        return respond(replica, received, EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST))
    error = voter_only_error(replica, ended.leader_id, ended.leader_epoch)
    if error is ErrorCode.NONE:
        endpoints = request_endpoints(replica, ended.leader_id, request.leader_endpoints)
        replica.follow(ended.leader_id, ended.leader_epoch, endpoints, now)
        state = replica.quorum.state
        if isinstance(state, Follower) and state.leader_id == ended.leader_id:
            # Its leader has resigned, so it grants pre-votes.
            state.has_fetched = False
            state.fetch_deadline_ms = now + _election_backoff_ms(replica, _candidates(ended))
    return respond(replica, received, _response(replica, received, error))


def _candidates(ended: RequestPartitionData) -> list[ReplicaKey]:
    if ended.preferred_candidates:
        return [ReplicaKey(known.candidate_id, known.candidate_directory_id) for known in ended.preferred_candidates]
    return [ReplicaKey(node_id) for node_id in ended.preferred_successors]


def _election_backoff_ms(replica: Replica, candidates: list[ReplicaKey]) -> int:
    """Grows with the position among the candidates: least for the first, the most for one that isn't among them."""
    longest_ms = replica.config.quorum.election_backoff_max_ms
    positions = (place for place, key in enumerate(candidates) if key.matches(replica.config.local.key))
    position = next(positions, len(candidates))
    if len(candidates) == 1 and position == 0:
        return 0
    if position == 0:
        return min(longest_ms, _HEARD_MS)
    if position == len(candidates):
        return longest_ms
    return min(longest_ms, longest_ms >> (len(candidates) - 1) << (position - 1))


def _response(replica: Replica, received: RequestReceived, error: ErrorCode) -> EndQuorumEpochResponse:
    partition = ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error,
        leader_id=leader_id_or_none(replica),
        leader_epoch=replica.quorum.epoch,
    )
    response = EndQuorumEpochResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    if received.version >= 1:
        response.node_endpoints = [NodeEndpoint(**fields) for fields in leader_endpoint(replica, received)]
    return response


def take_end_quorum_epoch(replica: Replica, response: EndQuorumEpochResponse, source: Node, now: int) -> bool:
    answer = accepted(replica, response, source, now)
    if isinstance(answer, bool):
        return answer
    if isinstance(replica.quorum.state, Resigned):
        replica.quorum.state.unacknowledged.discard(source.id)
    return True
