"""Offsets of partitions: where they begin and end, and where a time is."""

from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.client.leaders import ask_leaders
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

# The first version that knows the special timestamp.
_AT_LEAST = {MAX_TIMESTAMP: 7}
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
    """`wanted` says for each partition LATEST, EARLIEST, MAX_TIMESTAMP, or a time in ms since the epoch.

    The latest is the offset of the next record; with `read_committed`, of the first that is still undecided.
    """

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

    return await ask_leaders(client, wanted, ask)


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
