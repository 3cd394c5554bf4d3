"""FetchSnapshot: a follower that is too far behind fetches a snapshot, a piece at a time (KIP-630).

Errors: INCONSISTENT_CLUSTER_ID; UNKNOWN_TOPIC_OR_PARTITION; those of a leader's request, as in Fetch;
SNAPSHOT_NOT_FOUND, also for the bootstrap snapshot; POSITION_OUT_OF_RANGE. Version 1 adds directory id and endpoints.
"""

import logging

from cordwood.raft.effects import DiscardSnapshot, SnapshotSlice, WriteSnapshotPiece
from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import Node, ReplicaKey
from cordwood.raft.log import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch
from cordwood.raft.replica import Replica
from cordwood.raft.states import Follower, Leader
from cordwood.raft.states.follower import SnapshotFetch
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
    ResponsePartitionSnapshot,
    ResponseSnapshotId,
    ResponseTopicSnapshot,
)

from .common import (
    PARTITION,
    TOPIC,
    has_cluster_id,
    leader_endpoint,
    leader_id_or_none,
    leader_only_error,
    respond,
    take_common_response,
    unexpected,
)

logger = logging.getLogger(__name__)

# Enough for the first batch, which names the voters.
_OPENING_BYTES = 1 << 16


def fetch_snapshot_request(replica: Replica, fetching: SnapshotFetch) -> FetchSnapshotRequest:
    local = replica.config.local.key
    partition = RequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=replica.quorum.epoch,
        snapshot_id=RequestSnapshotId(end_offset=fetching.id.offset, epoch=fetching.id.epoch),
        position=fetching.size,
        replica_directory_id=local.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=replica.config.cluster_id,
        replica_id=local.id,
        max_bytes=replica.config.quorum.fetch_snapshot_max_bytes,
        topics=[RequestTopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def answer_fetch_snapshot(replica: Replica, received: RequestReceived, request: FetchSnapshotRequest, now: int) -> None:
    if not has_cluster_id(replica, request.cluster_id):
        return respond(replica, received, FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return respond(replica, received, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
    topic = request.topics[0]
    wanted = topic.partitions[0]
    if topic.name != TOPIC or wanted.partition != PARTITION:
        unknown = ResponsePartitionSnapshot(index=wanted.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return respond(replica, received, _response(replica, received, topic.name, unknown))

    snapshot_id = OffsetAndEpoch(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
    size = replica.log.snapshots.get(snapshot_id)
    error = leader_only_error(replica, wanted.current_leader_epoch)
    if error is ErrorCode.NONE and (size is None or snapshot_id == BOOTSTRAP_SNAPSHOT):
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    if error is ErrorCode.NONE and not 0 <= wanted.position < (size or 0):
        error = ErrorCode.POSITION_OUT_OF_RANGE
    partition = ResponsePartitionSnapshot(
        index=PARTITION,
        error_code=error,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id_or_none(replica), leader_epoch=replica.quorum.epoch),
    )
    records = None
    if error is ErrorCode.NONE:
        assert isinstance(replica.quorum.state, Leader)
        replica.quorum.state.heard_from(ReplicaKey(request.replica_id, wanted.replica_directory_id), now)
        partition.snapshot_id = ResponseSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch)
        partition.size, partition.position = size or 0, wanted.position
        records = SnapshotSlice(snapshot_id, wanted.position, request.max_bytes)
    return respond(replica, received, _response(replica, received, TOPIC, partition), records)


def _response(
    replica: Replica, received: RequestReceived, topic: str, partition: ResponsePartitionSnapshot
) -> FetchSnapshotResponse:
    partition.unaligned_records = b""
    response = FetchSnapshotResponse(topics=[ResponseTopicSnapshot(name=topic, partitions=[partition])])
    if received.version >= 1:
        response.node_endpoints = [NodeEndpoint(**fields) for fields in leader_endpoint(replica, received)]
    return response


def take_fetch_snapshot(replica: Replica, response: FetchSnapshotResponse, source: Node, now: int) -> bool:
    if response.error_code != ErrorCode.NONE:
        return unexpected(response.error_code, source)
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return False
    answer = response.topics[0].partitions[0]
    leader = answer.current_leader
    handled = take_common_response(
        replica, answer.error_code, leader.leader_id, leader.leader_epoch, response.node_endpoints, source, now
    )
    if handled is not None:
        return handled
    state = replica.quorum.state
    if not isinstance(state, Follower) or state.snapshot is None:
        return True
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND):
        return unexpected(answer.error_code, source)
    _take_piece(replica, state, state.snapshot, answer)
    state.fetch_deadline_ms = now + replica.config.quorum.fetch_timeout_ms
    state.has_fetched = True
    return True


def _take_piece(replica: Replica, state: Follower, fetching: SnapshotFetch, answer: ResponsePartitionSnapshot) -> None:
    snapshot_id = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
    if answer.error_code != ErrorCode.NONE or snapshot_id != fetching.id or answer.position != fetching.size:
        logger.info(
            "Giving up snapshot %s at position %d: the leader, node %d, answered with %s, snapshot %s, position %d",
            fetching.id, fetching.size, state.leader_id, ErrorCode(answer.error_code).name, snapshot_id,
            answer.position,
        )  # fmt: skip
        state.snapshot = None
        replica.outbox.append(DiscardSnapshot(fetching.id))
        return
    data = answer.unaligned_records
    assert isinstance(data, bytes | bytearray | memoryview)
    replica.outbox.append(WriteSnapshotPiece(fetching.id, fetching.size, data))
    if len(fetching.opening) < _OPENING_BYTES:
        fetching.opening += data
    fetching.size += len(data)
    if fetching.size >= answer.size:
        state.snapshot = None
        replica.install_snapshot(fetching.id, fetching.size, fetching.opening)
        state.leader_high_watermark = max(state.leader_high_watermark, fetching.id.offset)
        replica.follow_high_watermark(state)
