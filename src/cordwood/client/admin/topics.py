"""Creating, growing and deleting topics."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cordwood.client.admin.results import failure
from cordwood.client.arguments import ConfigValue, config_text, name_of, number_of, numbers_of
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
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
from cordwood.wire.primitives import Uuid, uuid_text

CLUSTER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = CLUSTER_DEFAULT
    replication_factor: int = CLUSTER_DEFAULT
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    """Numbers and bools are converted to text."""
    replicas: Sequence[Sequence[int]] = ()
    """The brokers of each partition, the preferred leader first; this determines partitions and replication factor."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    id: Uuid
    partitions: int
    """-1 if the caller lacks permission, or before Kafka 2.4."""
    replication_factor: int


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new partition count of a topic."""

    count: int
    """The total number, including existing partitions."""
    replicas: Sequence[Sequence[int]] = ()
    """The brokers of each new partition, the preferred leader first; by default the cluster chooses."""


async def create_topics(
    client: Client, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | BrokerError]:
    """Returns the result for each topic. A new topic may have no leaders yet: see `until_led`."""
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
    """Returns once brokers know a leader for every partition of these topics, and there are as many partitions as
    given."""

    async def attempt() -> None:
        try:
            topics = await client.topics(names)
        except BrokerError as error:
            # It exists, but busy brokers get its metadata late.
            error.retriable = error.retriable or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise
        for topic in topics.values():
            if len(topic.partitions) < partitions:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"{topic.name}-{partitions - 1}")
            for partition in topic.partitions:
                if partition.leader not in client.cluster.brokers:
                    raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"{topic.name}-{partition.index}")

    await client.retrying(attempt)


async def until_gone(client: Client, names: Collection[str]) -> None:
    """Returns once the queried broker knows of the deletion."""

    async def attempt() -> None:
        known = await client.all_topics()
        for name in names:
            if name in known:
                error = BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "brokers still list it", f"topic {name}")
                error.retriable = True
                raise error

    await client.retrying(attempt)


async def delete_topics(client: Client, topics: Sequence[str | Uuid]) -> dict[str | Uuid, BrokerError | None]:
    """Deletes topics by name or by id. Returns the outcome for each topic; None is success."""
    request = DeleteTopicsRequest(
        topics=[_deletable(topic) for topic in topics], timeout_ms=client.settings.request_timeout_ms
    )

    def errors(response: DeleteTopicsResponse) -> Collection[int]:
        return [topic.error_code for topic in response.responses]

    response = await client.ask_controller(request, errors)
    outcomes: dict[str | Uuid, BrokerError | None] = {}
    for told in response.responses:
        asked = told.topic_id if told.topic_id in topics else told.name
        if asked is not None:
            subject = f"topic {asked if isinstance(asked, str) else uuid_text(asked)}"
            outcomes[asked] = failure(told.error_code, told.error_message, subject)
    return outcomes


async def create_partitions(
    client: Client, wanted: Mapping[str, int | NewPartitions], *, validate_only: bool = False
) -> dict[str, BrokerError | None]:
    """Grows each topic to this total number of partitions."""
    request = CreatePartitionsRequest(
        topics=[_growing(name, grown) for name, grown in wanted.items()],
        timeout_ms=client.settings.request_timeout_ms,
        validate_only=validate_only,
    )

    def errors(response: CreatePartitionsResponse) -> Collection[int]:
        return [topic.error_code for topic in response.results]

    response = await client.ask_controller(request, errors)
    return {told.name: failure(told.error_code, told.error_message, f"topic {told.name}") for told in response.results}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=name_of(topic.name, "the name of a topic"),
        num_partitions=CLUSTER_DEFAULT
        if topic.replicas
        else number_of(topic.partitions, f"partitions of topic {topic.name}"),
        replication_factor=CLUSTER_DEFAULT
        if topic.replicas
        else number_of(topic.replication_factor, f"replication_factor of topic {topic.name}"),
        assignments=[
            CreatableReplicaAssignment(
                partition_index=index, broker_ids=numbers_of(brokers, f"replicas of topic {topic.name}")
            )
            for index, brokers in enumerate(topic.replicas)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=config_text(name, value)) for name, value in topic.configs.items()
        ],
    )


def _created(told: CreatableTopicResult) -> CreatedTopic | BrokerError:
    refused = failure(told.error_code, told.error_message, f"topic {told.name}")
    return refused or CreatedTopic(told.name, told.topic_id, told.num_partitions, told.replication_factor)


def _deletable(topic: str | Uuid) -> DeleteTopicState:
    return DeleteTopicState(name=topic) if isinstance(topic, str) else DeleteTopicState(name=None, topic_id=topic)


def _growing(name: str, grown: int | NewPartitions) -> CreatePartitionsTopic:
    if isinstance(grown, int):
        grown = NewPartitions(grown)
    assignments = [
        CreatePartitionsAssignment(broker_ids=numbers_of(brokers, f"replicas of topic {name}"))
        for brokers in grown.replicas
    ]
    return CreatePartitionsTopic(name=name, count=grown.count, assignments=assignments or None)
