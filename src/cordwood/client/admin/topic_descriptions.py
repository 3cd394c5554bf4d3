"""Topics with their partitions, page by page with DescribeTopicPartitions, or else with Metadata."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    TopicRequest,
)
from cordwood.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cordwood.wire.primitives import Uuid, uuid_text

# The first version of Metadata that does not create topics, and the first with topic ids: 10 and 11 (Kafka 2.8 and 3.0)
# have the field, but refuse it.
_WITHOUT_CREATION = 4
_BY_ID = 12


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Out of sync, but safe to elect (KIP-966); None if the broker does not report it."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


async def describe_topics(
    client: Client, names: Collection[str], *, partitions_per_page: int = 2_000
) -> dict[str, TopicDescription | BrokerError]:
    """UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
    if not names:
        return {}

    async def attempt() -> dict[str, TopicDescription | BrokerError]:
        broker = await client.any_broker()
        if broker.versions.has(DescribeTopicPartitionsRequest):
            return await _by_pages(broker, sorted(names), partitions_per_page)
        return await _by_metadata(broker, [MetadataRequestTopic(name=name) for name in names], _WITHOUT_CREATION)

    described = await client.retrying(attempt)
    return {name: described.get(name) or _unknown(f"topic {name}") for name in names}


async def describe_topics_by_id(client: Client, ids: Collection[Uuid]) -> dict[Uuid, TopicDescription | BrokerError]:
    """UNKNOWN_TOPIC_ID for a missing topic. `UnsupportedByBroker` if Metadata lacks version 12."""
    if not ids:
        return {}

    async def attempt() -> dict[str, TopicDescription | BrokerError]:
        asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
        return await _by_metadata(await client.any_broker(), asked, _BY_ID)

    described = await client.retrying(attempt)
    found = {topic.id: topic for topic in described.values() if isinstance(topic, TopicDescription)}
    return {
        topic_id: found.get(topic_id)
        or described.get(uuid_text(topic_id))
        or BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, subject=f"topic {uuid_text(topic_id)}")
        for topic_id in ids
    }


async def _by_pages(
    broker: BrokerConnection, names: list[str], partitions_per_page: int
) -> dict[str, TopicDescription | BrokerError]:
    told: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    failed: dict[str, TopicDescription | BrokerError] = {}
    cursor: RequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            # The broker continues at the cursor; everything before it is done.
            topics=[TopicRequest(name=name) for name in names if cursor is None or name >= cursor.topic_name],
            response_partition_limit=partitions_per_page,
            cursor=cursor,
        )
        response = await broker.ask(request)
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code != ErrorCode.NONE:
                failed[topic.name] = _refused(topic.error_code, f"topic {topic.name}")
            elif topic.name in told:
                told[topic.name].partitions += topic.partitions
            else:
                told[topic.name] = topic
        following = response.next_cursor
        if following is None:
            break
        cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
    return failed | {
        name: TopicDescription(name, topic.topic_id, topic.is_internal, _sorted(map(_partition, topic.partitions)))
        for name, topic in told.items()
    }


async def _by_metadata(
    broker: BrokerConnection, asked: list[MetadataRequestTopic], at_least: int
) -> dict[str, TopicDescription | BrokerError]:
    """Describes topics by name, or by the text of the id if the name is unknown."""
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response = await broker.ask(request, at_least=at_least)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code)
    return {topic.name or uuid_text(topic.topic_id): _topic(topic) for topic in response.topics}


def _topic(told: MetadataResponseTopic) -> TopicDescription | BrokerError:
    name = told.name or uuid_text(told.topic_id)
    if told.error_code != ErrorCode.NONE:
        return _refused(told.error_code, f"topic {name}")
    return TopicDescription(name, told.topic_id, told.is_internal, _sorted(map(_partition, told.partitions)))


def _partition(told: DescribeTopicPartitionsResponsePartition | MetadataResponsePartition) -> PartitionDescription:
    eligible = last_known = None
    if isinstance(told, DescribeTopicPartitionsResponsePartition):
        eligible, last_known = told.eligible_leader_replicas, told.last_known_elr
    return PartitionDescription(
        told.partition_index,
        told.leader_id if told.leader_id >= 0 else None,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )


def _sorted(partitions: Iterable[PartitionDescription]) -> tuple[PartitionDescription, ...]:
    return tuple(sorted(partitions, key=lambda partition: partition.index))


def _refused(code: int, subject: str) -> BrokerError:
    error = BrokerError(code, subject=subject)
    # LEADER_NOT_AVAILABLE is also returned for a topic that is being created.
    if error.retriable and error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
        raise error
    return error


def _unknown(subject: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=subject)
