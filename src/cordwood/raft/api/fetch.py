"""Fetch: how followers replicate, acknowledge, and receive the high watermark (KIP-595).

The leader answers with records, with a diverging epoch if the follower has to truncate, or with a snapshot's id if it
no longer has the records (KIP-630). With nothing to return it holds the fetch until there is something, until the high
watermark is above the one that the follower knows (KIP-1166; in a series of decisions a few milliseconds later), or
until `max_wait_ms` has passed.

Errors: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for another partition or an impossible offset or epoch;
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH; NOT_LEADER_OR_FOLLOWER with the leader if that is known;
BROKER_NOT_AVAILABLE during a shutdown. Version 17 adds the directory id and endpoints, version 18 the high watermark.
"""

import logging
from collections.abc import Iterable

from cordwood.raft.effects import DiscardSnapshot, LogSlice
from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import Node, ReplicaKey
from cordwood.raft.log import BOOTSTRAP_SNAPSHOT, Diverging, NeedsSnapshot, OffsetAndEpoch
from cordwood.raft.parked_fetches import ParkedFetch
from cordwood.raft.replica import Replica
from cordwood.raft.states import Follower, Leader
from cordwood.raft.states.follower import SnapshotFetch
from cordwood.raft.states.leader import HIGH_WATERMARK_LINGER_MS
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
    SnapshotId,
)
from cordwood.wire.primitives import ZERO_UUID

from .common import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    has_cluster_id,
    leader_endpoint,
    leader_id_or_none,
    leader_only_error,
    respond,
    take_common_response,
    unexpected,
)

logger = logging.getLogger(__name__)


def fetch_request(replica: Replica) -> FetchRequest:
    """Requests records from the log's end on, and acknowledges everything before it."""
    local, config = replica.config.local.key, replica.config.quorum
    high_watermark = replica.quorum.state.high_watermark
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=replica.quorum.epoch,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
        partition_max_bytes=config.fetch_max_bytes,
        replica_directory_id=local.directory_id,
        high_watermark=-1 if high_watermark is None else high_watermark,
    )
    return FetchRequest(
        cluster_id=replica.config.cluster_id,
        replica_state=ReplicaState(replica_id=local.id),
        max_wait_ms=config.fetch_max_wait_ms,
        max_bytes=config.fetch_max_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def answer_fetch(replica: Replica, received: RequestReceived, request: FetchRequest, now: int) -> None:
    if not has_cluster_id(replica, request.cluster_id):
        return respond(replica, received, FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    wanted = _only_partition(request)
    if wanted is None:
        return respond(replica, received, FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
    if (
        request.max_wait_ms < 0
        or wanted.fetch_offset < 0
        or not 0 <= wanted.last_fetched_epoch <= wanted.current_leader_epoch
    ):
        return respond(replica, received, _error_response(replica, received, ErrorCode.INVALID_REQUEST))
    response, records = _try_fetch(replica, received, request, wanted, now)
    found = response.responses[0].partitions[0]
    is_complete = (
        found.error_code != ErrorCode.NONE
        or records is not None
        or found.diverging_epoch.epoch >= 0
        or found.snapshot_id.epoch >= 0
    )
    wait_ms = request.max_wait_ms
    if found.high_watermark > wanted.high_watermark:
        state = replica.quorum.state
        is_series = isinstance(state, Leader) and state.expects_decision(now)
        wait_ms = min(wait_ms, HIGH_WATERMARK_LINGER_MS) if is_series else 0
    if is_complete or wait_ms == 0:
        return respond(replica, received, response, records)
    return replica.parked.park(ParkedFetch(received, wanted.fetch_offset, now + wait_ms))


def tell_high_watermark(replica: Replica, state: Leader, now: int) -> None:
    """The high watermark has moved: tells those that wait, soon or at once."""
    if state.expects_decision(now):
        replica.parked.hurry(now + HIGH_WATERMARK_LINGER_MS)
    else:
        complete_fetches(replica, replica.parked.take_all(), now)


def complete_fetches(replica: Replica, fetches: Iterable[ParkedFetch], now: int, *, counts: bool = True) -> None:
    """Answers parked fetches with the data available now."""
    for parked in fetches:
        request = parked.received.request
        assert isinstance(request, FetchRequest)
        wanted = _only_partition(request)
        assert wanted is not None
        response, records = _try_fetch(replica, parked.received, request, wanted, now, counts=counts)
        respond(replica, parked.received, response, records)


def expire_fetches(replica: Replica, fetches: Iterable[ParkedFetch], now: int) -> None:
    """Answers fetches whose wait has expired. The expiry says nothing about the follower."""
    complete_fetches(replica, fetches, now, counts=False)


def _only_partition(request: FetchRequest) -> FetchPartition | None:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    # By id since version 13, by name before.
    if topic.topic_id != TOPIC_ID and (topic.topic_id != ZERO_UUID or topic.topic != TOPIC):
        return None
    return topic.partitions[0] if topic.partitions[0].partition == PARTITION else None


def _try_fetch(
    replica: Replica,
    received: RequestReceived,
    request: FetchRequest,
    wanted: FetchPartition,
    now: int,
    *,
    counts: bool = True,
) -> tuple[FetchResponse, LogSlice | None]:
    error = leader_only_error(replica, wanted.current_leader_epoch)
    key = ReplicaKey(max(request.replica_state.replica_id, request.replica_id), wanted.replica_directory_id)
    if error is ErrorCode.NONE and key.id == replica.config.local.key.id:
        logger.error("Refusing a fetch of node %d, which has the leader's own id", key.id)
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not ErrorCode.NONE:
        return _error_response(replica, received, error), None
    state = replica.quorum.state
    assert isinstance(state, Leader)
    partition = PartitionData(high_watermark=-1)
    records = None
    problem = _problem(replica, wanted)
    if problem is None:
        # Consumers of the log, which aren't replicas, have a negative id.
        if counts and key.id >= 0 and state.fetched(key, wanted.fetch_offset, replica.log.end_offset, now):
            replica.high_watermark_moved = True
        if wanted.fetch_offset < replica.log.end_offset:
            records = LogSlice(wanted.fetch_offset, request.max_bytes)
    elif isinstance(problem, Diverging):
        partition.diverging_epoch = EpochEndOffset(epoch=problem.end.epoch, end_offset=problem.end.offset)
    else:
        partition.snapshot_id = SnapshotId(epoch=problem.id.epoch, end_offset=problem.id.offset)
    if state.high_watermark is not None:
        partition.high_watermark = state.high_watermark
    return _response(replica, received, partition), records


def _problem(replica: Replica, wanted: FetchPartition) -> Diverging | NeedsSnapshot | None:
    latest = replica.log.latest_snapshot
    if wanted.fetch_offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        # For an empty log the snapshot is always the shorter way.
        return NeedsSnapshot(latest)
    return replica.log.validate(wanted.fetch_offset, wanted.last_fetched_epoch)


def _error_response(replica: Replica, received: RequestReceived, error: ErrorCode) -> FetchResponse:
    return _response(replica, received, PartitionData(error_code=error, high_watermark=-1))


def _response(replica: Replica, received: RequestReceived, partition: PartitionData) -> FetchResponse:
    partition.partition_index = PARTITION
    partition.log_start_offset = replica.log.start_offset
    partition.current_leader = LeaderIdAndEpoch(leader_id=leader_id_or_none(replica), leader_epoch=replica.quorum.epoch)
    partition.records = b""
    response = FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])])
    if received.version >= 17:
        response.node_endpoints = [NodeEndpoint(**fields) for fields in leader_endpoint(replica, received)]
    return response


def take_fetch(replica: Replica, response: FetchResponse, source: Node, now: int) -> bool:
    if response.error_code != ErrorCode.NONE:
        return unexpected(response.error_code, source)
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return False
    answer = response.responses[0].partitions[0]
    leader = answer.current_leader
    handled = take_common_response(
        replica, answer.error_code, leader.leader_id, leader.leader_epoch, response.node_endpoints, source, now
    )
    if handled is not None:
        return handled
    state = replica.quorum.state
    if answer.error_code != ErrorCode.NONE:
        return unexpected(answer.error_code, source)
    if not isinstance(state, Follower):
        return True
    if not _take_records(replica, state, answer):
        return False
    state.fetch_deadline_ms = now + replica.config.quorum.fetch_timeout_ms
    state.has_fetched = True
    return True


def _take_records(replica: Replica, state: Follower, answer: PartitionData) -> bool:
    if answer.diverging_epoch.epoch >= 0:
        end = OffsetAndEpoch(answer.diverging_epoch.end_offset, answer.diverging_epoch.epoch)
        replica.truncate(end, state.high_watermark)
        return True
    snapshot_id = OffsetAndEpoch(answer.snapshot_id.end_offset, answer.snapshot_id.epoch)
    if snapshot_id.epoch >= 0 or snapshot_id.offset >= 0:
        if snapshot_id.epoch < 0 or snapshot_id.offset < 0:
            logger.error(
                "The leader, node %d, answered with an impossible snapshot id, %s", state.leader_id, snapshot_id
            )
            return False
        _begin_snapshot(replica, state, snapshot_id)
        return True
    if answer.records is not None and len(answer.records) > 0:
        assert isinstance(answer.records, bytes | bytearray | memoryview)
        if not replica.append_fetched(answer.records):
            return False
    state.leader_high_watermark = max(answer.high_watermark, state.leader_high_watermark)
    replica.follow_high_watermark(state)
    return True


def _begin_snapshot(replica: Replica, state: Follower, snapshot_id: OffsetAndEpoch) -> None:
    if snapshot_id in replica.log.snapshots:
        logger.info("The leader, node %d, offers snapshot %s, which is here already", state.leader_id, snapshot_id)
        return
    if state.snapshot is not None:
        replica.outbox.append(DiscardSnapshot(state.snapshot.id))
    logger.info("Fetching snapshot %s from the leader, node %d", snapshot_id, state.leader_id)
    state.snapshot = SnapshotFetch(snapshot_id)
