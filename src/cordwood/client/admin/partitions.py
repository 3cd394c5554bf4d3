"""Operations on partitions: deleting records, electing leaders, moving replicas between brokers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from cordwood.client.admin.partition_leaders import ask_each_leader
from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from cordwood.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from cordwood.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

TO_HIGH_WATERMARK = -1
"""Deletes everything up to the high watermark."""


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """`replicas` are the current ones, including those being added and removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | BrokerError]:
    """Deletes records before an offset, or up to TO_HIGH_WATERMARK; returns each partition's new first offset."""

    async def ask(
        broker: BrokerConnection, asked: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | BrokerError]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for partition, offset in asked.items():
            topic = topics.setdefault(partition.topic, DeleteRecordsTopic(name=partition.topic))
            topic.partitions.append(DeleteRecordsPartition(partition_index=partition.partition, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=client.settings.request_timeout_ms)
        response = await broker.ask(request)
        answers: dict[TopicPartition, int | BrokerError] = {}
        for told in response.topics:
            for one in told.partitions:
                partition = TopicPartition(told.name, one.partition_index)
                answers[partition] = failure(one.error_code, None, str(partition)) or one.low_watermark
        return answers

    return await ask_each_leader(client, before, ask)


async def elect_leaders(
    client: Client, election: ElectionType, partitions: Collection[TopicPartition] | None
) -> dict[TopicPartition, BrokerError | None]:
    """Returns the result for each partition; ELECTION_NOT_NEEDED if nothing had to change. None means all
    partitions."""
    request = ElectLeadersRequest(
        election_type=election,
        topic_partitions=None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions)],
        timeout_ms=client.settings.request_timeout_ms,
    )

    def errors(response: ElectLeadersResponse) -> Collection[int]:
        return [
            response.error_code,
            *(told.error_code for topic in response.replica_election_results for told in topic.partition_result),
        ]

    response = await client.ask_controller(request, errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code)
    outcomes = {}
    for topic in response.replica_election_results:
        for told in topic.partition_result:
            partition = TopicPartition(topic.topic, told.partition_id)
            outcomes[partition] = failure(told.error_code, told.error_message, str(partition))
    return dict(sorted(outcomes.items()))


async def alter_partition_reassignments(
    client: Client,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, BrokerError | None]:
    """Moves each partition to these brokers; None cancels a move in progress."""
    topics: dict[str, ReassignableTopic] = {}
    for partition, replicas in targets.items():
        topic = topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic))
        topic.partitions.append(
            ReassignablePartition(
                partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
            )
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=client.settings.request_timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=list(topics.values()),
    )

    def errors(response: AlterPartitionReassignmentsResponse) -> Collection[int]:
        return [
            response.error_code,
            *(told.error_code for topic in response.responses for told in topic.partitions),
        ]

    response = await client.ask_controller(request, errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    outcomes = {}
    for answered in response.responses:
        for told in answered.partitions:
            partition = TopicPartition(answered.name, told.partition_index)
            outcomes[partition] = failure(told.error_code, told.error_message, str(partition))
    return outcomes


async def list_partition_reassignments(
    client: Client, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Returns the moves in progress: all, or of these partitions."""
    request = ListPartitionReassignmentsRequest(
        timeout_ms=client.settings.request_timeout_ms,
        topics=None
        if partitions is None
        else [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in _by_topic(partitions)
        ],
    )

    def errors(response: ListPartitionReassignmentsResponse) -> Collection[int]:
        return [response.error_code]

    response = await client.ask_controller(request, errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    under_way = {
        TopicPartition(topic.name, told.partition_index): PartitionReassignment(
            tuple(told.replicas), tuple(told.adding_replicas), tuple(told.removing_replicas)
        )
        for topic in response.topics
        for told in topic.partitions
    }
    return dict(sorted(under_way.items()))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return list(grouped.items())
