"""Look-ups of topics and offsets, independent of the subscription."""

from collections.abc import Collection, Mapping

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.offset_types import OffsetAndTimestamp
from cordwood.client.offsets import ListedOffset, list_offsets


async def listed_offsets(
    client: Client, partitions: Collection[TopicPartition], spec: int, *, read_committed: bool
) -> dict[TopicPartition, int]:
    """Returns first or end offsets."""
    found = await _listed(client, dict.fromkeys(partitions, spec), read_committed=read_committed)
    return {partition: listed.offset for partition, listed in found.items()}


async def offsets_for_times(
    client: Client, times: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """None if there is no record at or after that time."""
    found = await _listed(client, times, read_committed=read_committed)
    return {
        partition: OffsetAndTimestamp(
            listed.offset, listed.timestamp, listed.leader_epoch if listed.leader_epoch >= 0 else None
        )
        if listed.offset >= 0
        else None
        for partition, listed in found.items()
    }


async def partitions_for(client: Client, topic: str) -> set[int]:
    """None if the topic does not exist; always asks a broker."""
    errors = await client.retrying(lambda: client.ask_for_topics([topic], create=False))
    known = client.cluster.topics.get(topic)
    if known is None and topic in errors and not errors[topic].retriable:
        raise errors[topic]
    return set() if known is None else {partition.index for partition in known.partitions}


async def topic_names(client: Client, *, exclude_internal: bool) -> set[str]:
    known = await client.all_topics()
    return {name for name, topic in known.items() if not (topic.is_internal and exclude_internal)}


async def _listed(
    client: Client, specs: Mapping[TopicPartition, int], *, read_committed: bool
) -> Mapping[TopicPartition, ListedOffset]:
    # Their leaders must be known.
    await client.topics({partition.topic for partition in specs} - client.cluster.topics.keys())
    return await list_offsets(client, specs, read_committed=read_committed)
