"""First and end offsets of partitions, and offsets by time."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.client.leaders import Ask, ask_leaders
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class OffsetSpec(IntEnum):
    """Special values in place of a timestamp."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The first record with the highest timestamp (Kafka 3.0+)."""
    EARLIEST_LOCAL = -4
    """The first offset that is not in remote storage only."""
    LATEST_TIERED = -5
    """The last offset in remote storage."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first offset that is not in remote storage yet."""


LATEST = OffsetSpec.LATEST
EARLIEST = OffsetSpec.EARLIEST
MAX_TIMESTAMP = OffsetSpec.MAX_TIMESTAMP

# The first version that knows each special timestamp.
_AT_LEAST: Mapping[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER = -1


@dataclass(frozen=True, slots=True)
class ListedOffset:
    offset: int
    """-1: there is no record of that time or later."""
    timestamp: int
    leader_epoch: int


async def list_offsets(
    client: Client, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset]:
    """`wanted` has an `OffsetSpec`, or a time in ms since the epoch, for each partition.

    The latest is the offset of the next record; with `read_committed`, that of the first open transaction.
    """
    return await ask_leaders(client, wanted, asking_for_offsets(client, read_committed=read_committed))


def asking_for_offsets(client: Client, *, read_committed: bool) -> Ask[int, ListedOffset]:
    """Returns the request for a leader."""

    async def ask(
        broker: BrokerConnection, asked: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ListedOffset | BrokerError]:
        request = _request(client, asked, read_committed)
        at_least = max(_AT_LEAST.get(timestamp, 0) for timestamp in asked.values())
        response = await broker.ask(request, at_least=at_least)
        answers: dict[TopicPartition, ListedOffset | BrokerError] = {}
        for topic in response.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if told.error_code != ErrorCode.NONE:
                    answers[partition] = BrokerError(told.error_code, subject=str(partition))
                else:
                    answers[partition] = ListedOffset(told.offset, told.timestamp, told.leader_epoch)
        return answers

    return ask


def _request(client: Client, asked: Mapping[TopicPartition, int], read_committed: bool) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, timestamp in asked.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=client.cluster.partition(partition).leader_epoch,
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=1 if read_committed else 0,
        topics=list(topics.values()),
        timeout_ms=client.settings.request_timeout_ms,
    )
