"""DescribeQuorum: who votes in the metadata quorum, who leads it, how far each is.

Only `__cluster_metadata`-0 is a quorum's; a request about anything else is answered with an error.
Version 1 adds when a replica fetched last, version 2 messages, the voters' directories and where they are reached.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.controller.endpoints import controller_endpoints
from cordwood.metadata.controller.topics import METADATA_TOPIC
from cordwood.metadata.image import UNASSIGNED_DIRECTORY
from cordwood.net.api import RequestContext, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

_METADATA_PARTITION = 0
_NODES_SINCE = 2


@handles(DescribeQuorumRequest)
def describe_quorum(
    controller: Controller, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    asked = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics
    ]
    if asked != [(METADATA_TOPIC, [_METADATA_PARTITION])]:
        return _refuse_all(request)
    quorum = _quorum(controller, context.version)
    response = DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[quorum])])
    if context.version >= _NODES_SINCE:
        response.nodes = [
            Node(
                node_id=node_id,
                listeners=[Listener(name=end.listener, host=end.host, port=end.port) for end in endpoints],
            )
            for node_id, endpoints in controller_endpoints(controller).items()
        ]
    return response


def _refuse_all(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
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
    )


def _quorum(controller: Controller, version: int) -> ResponsePartitionData:
    """Of one: the leader is the only voter, and as far as it is itself."""
    log = controller.log
    now_ms = controller.clock.now_ms()
    leader = ReplicaState(
        replica_id=controller.id,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    voters = log.quorum.voters
    if version >= _NODES_SINCE and voters is not None:
        leader.replica_directory_id = next(
            (voter.voter_directory_id for voter in voters.voters if voter.voter_id == controller.id),
            UNASSIGNED_DIRECTORY,
        )
    return ResponsePartitionData(
        partition_index=_METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        leader_id=controller.id,
        leader_epoch=log.leader.epoch,
        high_watermark=log.high_watermark,
        current_voters=[leader],
    )
