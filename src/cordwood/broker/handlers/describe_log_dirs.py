"""DescribeLogDirs: the log directories of this broker, their usage, and their replicas.

A null list of topics means all of them. A replica that is being moved is in both directories, in the new one as a
future replica, with the number of offsets that it lacks; other replicas have their lag behind the high watermark, 0 on
the leader. A failed directory has KAFKA_STORAGE_ERROR. Version 3 has an error for the whole request, version 4 sizes,
version 5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Iterator

from cordwood.broker.broker import Broker
from cordwood.log.dirs.directory import LogDirectory, TopicPartition
from cordwood.log.log import Log
from cordwood.net.api import Call, handles
from cordwood.runtime.disk import DiskError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(DescribeLogDirsRequest)
def describe_log_dirs(broker: Broker, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_described(broker, directory, asked) for directory in broker.replicas.directories.directories]
    )


def _described(broker: Broker, directory: LogDirectory, asked: set[TopicPartition] | None) -> DescribeLogDirsResult:
    root = directory.disk.root
    try:
        usage = None if directory.is_offline else directory.disk.usage()
    except DiskError as error:
        broker.replicas.disk_failed(error)
        usage = None
    if usage is None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=root)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic, partition in _replicas(broker, directory):
        if asked is None or (topic, partition.partition_index) in asked:
            topics.setdefault(topic, []).append(partition)
    return DescribeLogDirsResult(
        log_dir=root,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=usage.total_bytes,
        usable_bytes=usage.free_bytes,
        is_cordoned=directory.is_cordoned,
    )


def _replicas(broker: Broker, directory: LogDirectory) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    for (topic, index), log in directory.logs.items():
        lag = max(0, log.high_watermark - log.end_offset)
        yield topic, _replica(index, log, lag, is_future=False)
    for (topic, index), log in directory.futures.items():
        yield topic, _replica(index, log, broker.moves.lag_of(topic, index), is_future=True)


def _replica(index: int, log: Log, lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=index, partition_size=log.size, offset_lag=lag, is_future_key=is_future
    )
