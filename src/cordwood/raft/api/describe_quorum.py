"""DescribeQuorum: the leader reports the progress of each voter and observer (KIP-595, KIP-836, KIP-853).

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER. Version 1 adds the times of the last fetch and of being
caught up, version 2 directory ids, error messages and the voters' endpoints.
"""

from collections.abc import Iterable

from cordwood.raft.events import RequestReceived
from cordwood.raft.replica import Replica
from cordwood.raft.states import Leader
from cordwood.raft.states.replica_progress import ReplicaProgress
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from cordwood.wire.messages.describe_quorum import Node as VoterListeners

from .common import PARTITION, TOPIC, only_partition, respond


def answer_describe_quorum(
    replica: Replica, received: RequestReceived, request: DescribeQuorumRequest, now: int
) -> None:
    if only_partition(request.topics) is None:
        unknown = [
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return respond(replica, received, DescribeQuorumResponse(topics=unknown))
    partition = ResponsePartitionData(partition_index=PARTITION)
    response = DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])])
    leader = replica.quorum.state
    if not isinstance(leader, Leader):
        partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return respond(replica, received, response)
    partition.leader_id, partition.leader_epoch = leader.leader_id, leader.epoch
    partition.high_watermark = -1 if leader.high_watermark is None else leader.high_watermark
    partition.current_voters = _replicas(leader, leader.voters.values(), received.version, now)
    partition.observers = _replicas(leader, leader.active_observers(now), received.version, now)
    if received.version >= 2:
        response.nodes = [
            VoterListeners(
                node_id=voter.key.id,
                listeners=[Listener(name=name, host=host, port=port) for name, (host, port) in voter.endpoints.items()],
            )
            for voter in leader.voters.values()
        ]
    return respond(replica, received, response)


def _replicas(leader: Leader, known: Iterable[ReplicaProgress], version: int, now: int) -> list[ReplicaState]:
    replicas = []
    for progress in known:
        is_leader = progress.key.id == leader.leader_id
        state = ReplicaState(
            replica_id=progress.key.id,
            log_end_offset=-1 if progress.end_offset is None else progress.end_offset,
            last_fetch_timestamp=now if is_leader else progress.last_fetch_ms,
            last_caught_up_timestamp=now if is_leader else progress.last_caught_up_ms,
        )
        if version >= 2:
            state.replica_directory_id = progress.key.directory_id
        replicas.append(state)
    return replicas
