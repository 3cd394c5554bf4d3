"""AlterReplicaLogDirs: moves replicas of this broker to others of its log directories.

The response says that a move has begun, not that it is done: DescribeLogDirs shows its progress. A move to the
replica's current directory cancels a move in progress; of two directories for one partition the last counts. While a
directory is offline no move begins, since a future replica might be there. Cordoned directories accept none.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.log.files import FUTURE_DIRECTORY
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_MAX_FILE_NAME = 255
_UNIQUE_ID_LENGTH = 32


@handles(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(
    broker: Broker, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    paths = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), path in paths.items():
        error = _begin_move(broker, topic, index, path)
        results.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
            for topic, partitions in results.items()
        ]
    )


def _begin_move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    directories = broker.replicas.directories
    if len(f"{topic}-{index}.{FUTURE_DIRECTORY}") + _UNIQUE_ID_LENGTH > _MAX_FILE_NAME:
        # The directory of Kafka's future replica contains the topic's whole name.
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    destination = next((directory for directory in directories.directories if directory.disk.root == path), None)
    if destination is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if destination.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = broker.partition(topic, index)
    if partition is None:
        is_known = broker.image.topics.partition(topic, index) is not None
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_here = directories.directory_of(topic, index) is destination
    if partition.log is None or (not is_here and len(directories.online) < len(directories.directories)):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if destination.is_cordoned and not is_here:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    broker.moves.request(partition, destination)
    return ErrorCode.NONE
