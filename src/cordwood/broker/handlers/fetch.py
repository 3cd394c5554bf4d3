"""Fetch: batches from an offset on, of the partitions that this broker leads or, for consumers, follows.

Only acknowledged records are sent: up to the high watermark, or for read_committed up to the last stable offset, with
the aborted transactions that a consumer must skip. The first batch comes whole even where it is larger than every
limit; the last one may be cut short. With fewer than `min_bytes` to send the answer waits for more, at most
`max_wait_ms` (`parked_fetch`). Records go from file to socket unread.

Version 7 brings sessions (`fetch_sessions`), 9 the leader epoch that a client believes in, 11 the consumer's rack and
reading from followers (`read_replica`), 12 the epoch of what was fetched last and where its log parts from ours, 13
topic ids in place of names, 15 moves the replica id, 16 tells the leader that a client should turn to (KIP-951), 17 the
directory of a replica, 18 its high watermark.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.fetch.parked import ParkedFetch
from cordwood.broker.fetch.read_replica import ReadReplicaSelector
from cordwood.broker.fetch.reading import READ_COMMITTED, READ_UNCOMMITTED, FetchRead, count_read, error_answer
from cordwood.broker.fetch.sessions import Answers, Fetching
from cordwood.broker.fetch.wanted import PartitionKey, WantedPartition
from cordwood.net.api import Call, Result, handles
from cordwood.net.serving import Reply
from cordwood.runtime.network import Part
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from cordwood.wire.primitives import ZERO_UUID

_NO_EPOCH = -1
_STORAGE_ERROR_SINCE = 6
_RACKS_SINCE = 11
_TOPIC_IDS_SINCE = 13
_REPLICA_STATE_SINCE = 15
_LEADERS_SINCE = 16


# Controllers fetch the metadata log from each other with it; that is another thing.
@handles(FetchRequest, listeners=("broker",))
def fetch(broker: Broker, request: FetchRequest, call: Call) -> Result:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refuse_all(request, call.version, ErrorCode.UNKNOWN_SERVER_ERROR)
    replica_id = request.replica_state.replica_id if call.version >= _REPLICA_STATE_SINCE else request.replica_id
    is_follower = replica_id >= 0
    fetching = _begin(broker, request, call, is_follower)
    if isinstance(fetching, ErrorCode):
        return FetchResponse(error_code=fetching)
    max_bytes = min(request.max_bytes, broker.config.integer("fetch.max.bytes"))
    knows_followers = not is_follower and call.version >= _RACKS_SINCE
    read = FetchRead(
        broker,
        fetching,
        replica_id,
        request.isolation_level,
        max_bytes,
        leader_only=not knows_followers,
        selector=ReadReplicaSelector.of(broker, request.rack_id, call.connection.listener)
        if knows_followers and request.rack_id
        else None,
    )
    if is_follower:
        read.count_follower(request.replica_state.replica_epoch if call.version >= _REPLICA_STATE_SINCE else _NO_EPOCH)
    min_bytes = min(request.min_bytes, max_bytes)
    max_wait_ms = request.max_wait_ms

    def answer() -> list[Part]:
        answers = [] if fetching.is_superseded else read.all()[0]
        return call.parts(_response(broker, fetching, answers, call, is_follower))

    if max_wait_ms > 0 and min_bytes > 0:
        idle = read.idle()
        if idle or (idle is not None and fetching.watch is not None):
            return _park(fetching, ParkedFetch(read, idle, min_bytes, max_wait_ms, answer, fetching.watch))
    answers, found_bytes, is_urgent = read.all()
    if found_bytes >= min_bytes or is_urgent or max_wait_ms <= 0 or fetching.is_empty:
        return _response(broker, fetching, answers, call, is_follower)
    watched = read.watched()
    parked = ParkedFetch(read, watched, min_bytes, max_wait_ms, answer, fetching.watch)
    if parked.is_satisfied(list(watched)):
        parked.stop()
        return _response(broker, fetching, answers, call, is_follower)
    return _park(fetching, parked)


def _park(fetching: Fetching, parked: ParkedFetch) -> Reply:
    fetching.when_superseded(parked.expire)
    return parked.reply


def _begin(broker: Broker, request: FetchRequest, call: Call, is_follower: bool) -> Fetching | ErrorCode:
    by_id = call.version >= _TOPIC_IDS_SINCE
    wanted: dict[PartitionKey, WantedPartition] = {}
    for topic in request.topics:
        topic_key = topic.topic_id if by_id else topic.topic
        name = broker.topic_name(topic.topic_id) if by_id else topic.topic
        for partition in topic.partitions:
            # Asked for twice, the latter counts, in the place of the former.
            wanted[topic_key, partition.partition] = WantedPartition(
                name,
                topic.topic_id if by_id else ZERO_UUID,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                max(_NO_EPOCH, partition.current_leader_epoch),
                partition.last_fetched_epoch,
                partition.log_start_offset,
            )
    forgotten: list[PartitionKey] = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return broker.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        by_id,
        wanted,
        forgotten,
        broker.clock.now_ms(),
        privileged=is_follower,
    )


def _refuse_all(request: FetchRequest, version: int, error: ErrorCode) -> FetchResponse:
    """Before version 13 each partition has the error too: older clients ignore the response's."""
    response = FetchResponse(error_code=error, session_id=request.session_id)
    if version < _TOPIC_IDS_SINCE:
        response.responses = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[error_answer(partition.partition, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    return response


def _response(broker: Broker, fetching: Fetching, answers: Answers, call: Call, is_follower: bool) -> FetchResponse:
    error, session_id, answers = fetching.conclude(answers, broker.clock.now_ms())
    response = FetchResponse(error_code=error, session_id=session_id)
    topics = response.responses
    leaders: set[int] = set()
    last: WantedPartition | None = None
    traffic = None if is_follower else broker.replicas.traffic
    for wanted, answer in answers:
        if traffic is not None and answer.records:
            count_read(broker, wanted, answer)
        if last is None or last.topic_id != wanted.topic_id or last.topic != wanted.topic:
            topics.append(FetchableTopicResponse(topic=wanted.topic or "", topic_id=wanted.topic_id))
        topics[-1].partitions.append(answer)
        last = wanted
        if answer.error_code:
            if call.version >= _LEADERS_SINCE:
                leaders.update(_tell_leader(broker, wanted, answer))
            elif answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR and call.version < _STORAGE_ERROR_SINCE:
                # Older clients don't know this error, and would not look for another leader.
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leaders and not is_follower:
        endpoints = broker.endpoints(call.connection.listener)
        response.node_endpoints = [
            NodeEndpoint(node_id=node, host=endpoints[node].host, port=endpoints[node].port, rack=broker.rack(node))
            for node in sorted(leaders)
            if node in endpoints
        ]
    return response


def _tell_leader(broker: Broker, wanted: WantedPartition, answer: PartitionData) -> tuple[int, ...]:
    """A broker that is not the leader, or has a newer epoch than the client, names the current leader (KIP-951)."""
    if answer.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        return ()
    state = broker.image.topics.partition(wanted.topic or "", wanted.index)
    if state is None:
        return ()
    answer.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
    return (state.leader,)
