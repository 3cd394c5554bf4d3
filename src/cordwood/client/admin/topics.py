"""Creating, growing and deleting topics."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from cordwood.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from cordwood.wire.primitives import Uuid

CLUSTER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] = ()
    """For each partition its brokers, the preferred leader first; partitions and replication factor then follow."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    id: Uuid
    partitions: int
    """-1 where the caller may not know, or before Kafka 2.4."""
    replication_factor: int


async def create_topics(
    client: Client, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | BrokerError]:
    """What became of each. They may have no leader yet: see `until_led`."""
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=client.settings.request_timeout_ms,
        validate_only=validate_only,
    )

    def errors(response: CreateTopicsResponse) -> Collection[int]:
        return [topic.error_code for topic in response.topics]

    response = await client.ask_controller(request, errors)
    return {told.name: _created(told) for told in response.topics}


async def until_led(client: Client, names: Collection[str], partitions: int = 0) -> None:
    """Returns once every partition of these topics has a leader that brokers know of, and there are as many as told."""

    async def attempt() -> None:
        for topic in (await client.topics(names)).values():
            if len(topic.partitions) < partitions:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"{topic.name}-{partitions - 1}")
            for partition in topic.partitions:
                if partition.leader not in client.cluster.brokers:
                    raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"{topic.name}-{partition.index}")

    await client.retrying(attempt)


async def until_gone(client: Client, names: Collection[str]) -> None:
    """Returns once the broker we ask has heard of the deletion."""
    left = set(names)
    while left := left & (await client.all_topics()).keys():
        await asyncio.sleep(client.settings.retry_backoff_ms / 1000)


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, BrokerError | None]:
    """What became of each; None is success."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], timeout_ms=client.settings.request_timeout_ms
    )

    def errors(response: DeleteTopicsResponse) -> Collection[int]:
        return [topic.error_code for topic in response.responses]

    response = await client.ask_controller(request, errors)
    return {
        told.name: _failure(told.error_code, told.error_message, f"topic {told.name}")
        for told in response.responses
        if told.name is not None
    }


async def create_partitions(
    client: Client, counts: Mapping[str, int], *, validate_only: bool = False
) -> dict[str, BrokerError | None]:
    """Grows each topic to so many partitions in all."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()],
        timeout_ms=client.settings.request_timeout_ms,
        validate_only=validate_only,
    )

    def errors(response: CreatePartitionsResponse) -> Collection[int]:
        return [topic.error_code for topic in response.results]

    response = await client.ask_controller(request, errors)
    return {told.name: _failure(told.error_code, told.error_message, f"topic {told.name}") for told in response.results}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=CLUSTER_DEFAULT if topic.replicas else topic.partitions,
        replication_factor=CLUSTER_DEFAULT if topic.replicas else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.replicas)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _created(told: CreatableTopicResult) -> CreatedTopic | BrokerError:
    failure = _failure(told.error_code, told.error_message, f"topic {told.name}")
    return failure or CreatedTopic(told.name, told.topic_id, told.num_partitions, told.replication_factor)


def _failure(code: int, message: str | None, subject: str) -> BrokerError | None:
    return None if code == ErrorCode.NONE else BrokerError(code, message, subject)
