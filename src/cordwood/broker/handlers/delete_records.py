"""DeleteRecords: makes records before an offset unreadable; their segments are deleted with the next retention run.

-1 is the high watermark: everything. An offset before the start changes nothing. Only topics whose cleanup policy has
`delete` allow it. The response has the low watermark: the highest log start of all live replicas. It waits until all of
them have followed, for at most `timeout_ms`. The new start is on stable storage here before the response is sent, so
that a crash brings nothing back.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop, timeout_at

from cordwood.broker.broker import Broker
from cordwood.broker.topic_view import INTERNAL_TOPICS
from cordwood.log.steps import Steps
from cordwood.net.api import Call, handles
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_NO_LOW_WATERMARK = -1


@handles(DeleteRecordsRequest)
async def delete_records(broker: Broker, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    # If a partition is repeated, the last entry counts.
    wanted = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    results = {key: _result(broker, *key, offset) for key, offset in wanted.items()}
    deadline = get_running_loop().time() + request.timeout_ms / 1000
    for key, result in results.items():
        if not result.error_code and not await _is_durable(broker, *key, result.low_watermark):
            results[key] = _refused(key[1], ErrorCode.KAFKA_STORAGE_ERROR)
        elif not result.error_code:
            results[key] = await _followed(broker, *key, result, deadline)
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for (name, _), result in results.items():
        topics.setdefault(name, DeleteRecordsTopicResult(name=name)).partitions.append(result)
    return DeleteRecordsResponse(topics=list(topics.values()))


def _result(broker: Broker, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _delete(broker.hosted(topic, index), offset)
    except Refusal as refusal:
        return _refused(index, refusal.error)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)


def _refused(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK, error_code=error)


def _delete(partition: Partition, offset: int) -> int:
    """Returns the resulting low watermark."""
    # In these topics only the coordinators delete.
    if partition.topic in INTERNAL_TOPICS:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {partition.topic} cannot be deleted")
    log = partition.leader_log()
    if not log.config.delete:
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"{partition} has a cleanup policy without `delete`")
    start = log.high_watermark if offset == _HIGH_WATERMARK else offset
    if start < 0:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"{start} is not a valid offset")
    partition.advance_start(start)
    return log.start_offset


async def _followed(
    broker: Broker, topic: str, index: int, result: DeleteRecordsPartitionResult, deadline: float
) -> DeleteRecordsPartitionResult:
    """Waits until all live replicas start there."""
    loop = get_running_loop()
    try:
        while True:
            partition = broker.hosted(topic, index)
            low_watermark = partition.low_watermark(lambda replica: broker.registered_epoch(replica) is not None)
            if low_watermark >= result.low_watermark:
                result.low_watermark = low_watermark
                return result
            changed: Future[None] = loop.create_future()
            partition.when_starts_change(lambda changed=changed: changed.done() or changed.set_result(None))  # type: ignore[misc]
            async with timeout_at(deadline):
                await changed
    except Refusal as refusal:
        return _refused(index, refusal.error)
    except TimeoutError:
        return _refused(index, ErrorCode.REQUEST_TIMED_OUT)


async def _is_durable(broker: Broker, topic: str, index: int, start: int) -> bool:
    """Writes the checkpoint with the log start; False if its directory has failed."""
    directory = broker.replicas.directories.directory_of(topic, index)
    while directory is not None and not directory.is_offline:
        log = directory.logs.get((topic, index))
        if log is None or log.segments.first.base_offset >= start:
            # Deleted since then, or recorded by its first segment.
            return True
        if directory.checkpoints.log_starts.offset_of((topic, index)) >= start:
            return True
        try:
            await _do_all(directory.checkpoints.writing(directory.checkpoints.log_starts))
        except DiskError as error:
            broker.replicas.disk_failed(error)
    return False


async def _do_all(steps: Steps[None]) -> None:
    loop = get_running_loop()
    for step in steps:
        if not isinstance(step, int):
            await loop.run_in_executor(None, step)
