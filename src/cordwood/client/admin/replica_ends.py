"""Log end offsets of replicas, asked of their brokers: the real lag of followers.

DescribeLogDirs does not have it: there a follower measures its lag against the high watermark that it knows.
ListOffsets with the debugging replica id does, and followers answer it too.
"""

import asyncio
from collections.abc import Collection, Mapping

from cordwood.client.admin.log_dirs import TopicPartitionReplica
from cordwood.client.client import Client
from cordwood.client.errors import ClientError
from cordwood.client.offsets import LATEST
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

_DEBUGGING_REPLICA = -2


async def replica_ends(client: Client, replicas: Collection[TopicPartitionReplica]) -> dict[TopicPartitionReplica, int]:
    """Returns log end offsets, without those of brokers that are down and of replicas that do not exist yet: nothing is
    retried."""
    by_broker: dict[int, list[TopicPartitionReplica]] = {}
    for replica in replicas:
        if replica.broker_id in client.cluster.brokers:
            by_broker.setdefault(replica.broker_id, []).append(replica)
    found = await asyncio.gather(*(_ends_at(client, broker, asked) for broker, asked in by_broker.items()))
    return {replica: end for ends in found for replica, end in ends.items()}


async def _ends_at(
    client: Client, broker: int, replicas: Collection[TopicPartitionReplica]
) -> Mapping[TopicPartitionReplica, int]:
    topics: dict[str, ListOffsetsTopic] = {}
    for replica in replicas:
        topic = topics.setdefault(replica.topic, ListOffsetsTopic(name=replica.topic))
        topic.partitions.append(ListOffsetsPartition(partition_index=replica.partition, timestamp=LATEST))
    request = ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA,
        topics=list(topics.values()),
        timeout_ms=client.settings.request_timeout_ms,
    )
    try:
        response = await (await client.broker(broker)).ask(request)
    except ClientError:
        return {}
    return {
        TopicPartitionReplica(topic.name, told.partition_index, broker): told.offset
        for topic in response.topics
        for told in topic.partitions
        if told.error_code == ErrorCode.NONE and told.offset >= 0
    }
