"""ListOffsets: offsets by time, and the first and last offsets of a partition.

Returns the first record that is not older than a timestamp (control records count), or the offset for a special
timestamp: the latest offset (-1), the earliest (-2), the first of the newest records (-3, from version 7), the earliest
on local disk (-4, from 8), the latest in tiered storage (-5, from 9), the first not yet uploaded to it (-6, from 11).
There is no tiered storage: the earliest is local, and -5 and -6 have no result. Consumers get no offsets that they
could not read: at or past the high watermark, or the last stable offset for read_committed (from version 2). A replica
(id 0 and up) may see up to the end of the leader's log; the debugging id -2 up to the end of this broker's own log,
whether it leads the partition or follows.

Version 4 adds leader epochs, 5 OFFSET_NOT_AVAILABLE for a leader whose high watermark has not reached the start of its
epoch, 10 a timeout for tiered storage.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cordwood.broker.broker import Broker
from cordwood.broker.fetch.reading import CONSUMER_REPLICA_ID, READ_COMMITTED, READ_UNCOMMITTED
from cordwood.log.log import Log
from cordwood.net.api import Call, handles
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cordwood.wire.record import CorruptBatch

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
# The first version that supports each.
_SINCE = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCHS_SINCE = 4
_OFFSET_NOT_AVAILABLE_SINCE = 5
_DEBUGGING_REPLICA_ID = -2


class _Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


@handles(ListOffsetsRequest)
def list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    asked = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        answers = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            is_duplicate = asked[topic.name, index] > 1
            try:
                found = _find(broker, request, call.version, topic.name, partition, is_duplicate=is_duplicate)
            except Refusal as refusal:
                answers[index] = ListOffsetsPartitionResponse(partition_index=index, error_code=refusal.error)
            else:
                answers[index] = ListOffsetsPartitionResponse(
                    partition_index=index,
                    offset=found.offset,
                    timestamp=found.timestamp,
                    leader_epoch=found.leader_epoch if call.version >= _LEADER_EPOCHS_SINCE else -1,
                )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(answers.values())) for name, answers in topics.items()
        ]
    )


def _find(
    broker: Broker,
    request: ListOffsetsRequest,
    version: int,
    topic: str,
    asked: ListOffsetsPartition,
    *,
    is_duplicate: bool,
) -> _Found:
    if is_duplicate:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{topic}-{asked.partition_index} appears more than once")
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"version {version} has no timestamp {timestamp}")
    partition = broker.hosted(topic, asked.partition_index)
    log = partition.readable_log(asked.current_leader_epoch, leader_only=request.replica_id != _DEBUGGING_REPLICA_ID)
    is_consumer = request.replica_id == CONSUMER_REPLICA_ID
    if not is_consumer:
        limit = log.end_offset
    elif request.isolation_level == READ_COMMITTED:
        limit = log.last_stable_offset
    else:
        limit = log.high_watermark
    is_behind = is_consumer and partition.leader_epoch_start(log) > log.high_watermark
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return _Found(log.start_offset, leader_epoch=_earliest_epoch(partition, log))
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _Found()
    if timestamp == _LATEST:
        found = _Found(limit, leader_epoch=partition.state.leader_epoch)
        is_readable = not is_behind
    else:
        found = _by_time(broker, log, timestamp)
        is_readable = 0 <= found.offset < limit
    if not is_readable and is_behind:
        raise _not_available(partition, version)
    return found if is_readable else _Found()


def _by_time(broker: Broker, log: Log, timestamp: int) -> _Found:
    try:
        found = log.offset_of_max_timestamp() if timestamp == _MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    except DiskError as error:
        broker.replicas.disk_failed(error)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    except CorruptBatch as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"{log} is damaged: {error}") from error
    return _Found() if found is None else _Found(found.offset, found.timestamp, found.leader_epoch)


def _earliest_epoch(partition: Partition, log: Log) -> int:
    first = next(iter(log.epochs.entries), None)
    if first is not None:
        return first.epoch if first.start_offset <= log.start_offset else -1
    return partition.state.leader_epoch if log.start_offset == log.end_offset else -1


def _not_available(partition: Partition, version: int) -> Refusal:
    return Refusal(
        ErrorCode.OFFSET_NOT_AVAILABLE if version >= _OFFSET_NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE,
        f"the high watermark of {partition} has not reached the start of the leader's epoch",
    )
