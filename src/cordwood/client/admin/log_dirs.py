"""Log directories of brokers, and their replicas."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cordwood.client.admin.every_broker import from_every_broker
from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from cordwood.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

Partitions = Collection[TopicPartition]


class TopicPartitionReplica(NamedTuple):
    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class ReplicaInLogDir:
    size_bytes: int
    offset_lag: int
    """Records behind the high watermark; for a future replica, behind the replica that it will replace."""
    is_future: bool
    """True for a replica that is being moved into this directory."""


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error: BrokerError | None
    """KAFKA_STORAGE_ERROR if the directory is offline."""
    replicas: Mapping[TopicPartition, ReplicaInLogDir]
    total_bytes: int | None
    usable_bytes: int | None
    """None before Kafka 3.3."""
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class ReplicaLogDirs:
    """The directory of a replica, and the target directory of a move."""

    current: str | None
    current_lag: int | None
    future: str | None
    future_lag: int | None


async def describe_log_dirs(
    client: Client, brokers: Collection[int] | None = None, partitions: Partitions | None = None
) -> dict[int, dict[str, LogDir] | BrokerError]:
    """Returns directories by broker (default: all), then by path; with all replicas, or those of `partitions`."""
    topics = None if partitions is None else _topics(partitions)
    request = DescribeLogDirsRequest(topics=topics)

    def told(broker: int, response: DescribeLogDirsResponse) -> dict[str, LogDir] | BrokerError:
        refused = failure(response.error_code, None, f"broker {broker}")
        return refused or {found.log_dir: _log_dir(found) for found in response.results}

    async def ask(broker: int, connection: BrokerConnection) -> dict[str, LogDir] | BrokerError:
        return told(broker, await connection.ask(request))

    if brokers is None:
        return await from_every_broker(client, ask)
    await client.refresh()
    chosen = sorted(brokers)

    async def describe(broker: int) -> dict[str, LogDir] | BrokerError:
        return told(broker, await client.ask_broker(broker, request))

    return dict(zip(chosen, await asyncio.gather(*(describe(broker) for broker in chosen)), strict=True))


async def describe_replica_log_dirs(
    client: Client, replicas: Collection[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, ReplicaLogDirs | BrokerError]:
    """Returns the directory of each replica; all None for one that the broker does not have."""
    brokers = sorted({replica.broker_id for replica in replicas})
    partitions = sorted({TopicPartition(replica.topic, replica.partition) for replica in replicas})
    described = await describe_log_dirs(client, brokers, partitions)
    found: dict[TopicPartitionReplica, ReplicaLogDirs | BrokerError] = {}
    for replica in replicas:
        dirs = described[replica.broker_id]
        found[replica] = dirs if isinstance(dirs, BrokerError) else _place(replica, dirs)
    return found


async def alter_replica_log_dirs(
    client: Client, targets: Mapping[TopicPartitionReplica, str]
) -> dict[TopicPartitionReplica, BrokerError | None]:
    """Moves each replica into a directory of its broker; returns the outcome of each request."""
    by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
    for replica, path in targets.items():
        paths = by_broker.setdefault(replica.broker_id, {})
        paths.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    outcomes: dict[TopicPartitionReplica, BrokerError | None] = {}
    for broker_id, paths in by_broker.items():
        dirs = [
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic.topic, partitions=topic.partitions)
                    for topic in _topics(partitions)
                ],
            )
            for path, partitions in paths.items()
        ]
        response = await client.ask_broker(broker_id, AlterReplicaLogDirsRequest(dirs=dirs))
        for told_topic in response.results:
            for told in told_topic.partitions:
                replica = TopicPartitionReplica(told_topic.topic_name, told.partition_index, broker_id)
                outcomes[replica] = failure(told.error_code, None, str(replica))
    return {replica: outcomes[replica] for replica in targets}


def _topics(partitions: Partitions) -> list[DescribableLogDirTopic]:
    topics: dict[str, DescribableLogDirTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, DescribableLogDirTopic(topic=partition.topic))
        topic.partitions.append(partition.partition)
    return list(topics.values())


def _log_dir(told: DescribeLogDirsResult) -> LogDir:
    replicas = {
        TopicPartition(topic.name, one.partition_index): ReplicaInLogDir(
            one.partition_size, one.offset_lag, one.is_future_key
        )
        for topic in told.topics
        for one in topic.partitions
    }
    return LogDir(
        told.log_dir,
        failure(told.error_code, None, told.log_dir),
        dict(sorted(replicas.items())),
        told.total_bytes if told.total_bytes >= 0 else None,
        told.usable_bytes if told.usable_bytes >= 0 else None,
        told.is_cordoned,
    )


def _place(replica: TopicPartitionReplica, dirs: Mapping[str, LogDir]) -> ReplicaLogDirs:
    current = future = current_lag = future_lag = None
    for path, log_dir in dirs.items():
        found = log_dir.replicas.get(TopicPartition(replica.topic, replica.partition))
        if found is None:
            continue
        if found.is_future:
            future, future_lag = path, found.offset_lag
        else:
            current, current_lag = path, found.offset_lag
    return ReplicaLogDirs(current, current_lag, future, future_lag)
