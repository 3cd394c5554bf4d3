"""The output of `cordwood topic describe`."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from cordwood.cli.terminal.output import print_facts, print_table
from cordwood.cli.topics.topic_choice import is_internal
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from cordwood.client.admin.log_dirs import TopicPartitionReplica
from cordwood.client.admin.replica_ends import replica_ends
from cordwood.client.admin.results import settled
from cordwood.client.admin.topic_descriptions import PartitionDescription, TopicDescription
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.offsets import EARLIEST, LATEST
from cordwood.wire.primitives import uuid_text

_PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "offline", "start", "end", "elr", "lag")
_AT_ONCE = 8
_MIN_ISR = "min.insync.replicas"


class PartitionFilter(Enum):
    """Filters for partitions that need attention; named like the options."""

    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    UNAVAILABLE = "unavailable"


async def describe_topics(
    admin: Admin, topics: Sequence[Topic], filters: Collection[PartitionFilter] = ()
) -> list[dict[str, Any]]:
    """Returns the description in its JSON form. With filters, only the topics and partitions that match any."""
    names = [topic.name for topic in topics]
    await admin.client.topics(names)
    told = await settled(admin.describe_topics(names))
    room = asyncio.Semaphore(_AT_ONCE)

    async def describe(topic: TopicDescription) -> dict[str, Any] | None:
        async with room:
            return await _describe(admin, topic, filters)

    present = [description for description in told.values() if isinstance(description, TopicDescription)]
    described = await asyncio.gather(*(describe(topic) for topic in sorted(present, key=lambda topic: topic.name)))
    return [topic for topic in described if topic is not None]


def print_descriptions(described: Sequence[dict[str, Any]]) -> None:
    for position, topic in enumerate(described):
        if position:
            print()
        print_facts([("topic", topic["name"]), ("id", topic["topicId"]), ("internal", topic["internal"])])
        print_table(
            _PARTITION_COLUMNS,
            [[_cell(partition, column) for column in _PARTITION_COLUMNS] for partition in topic["partitions"]],
            title="Partitions",
            kind="partition",
        )
        # Show values from the brokers' files too, but not defaults.
        if topic["configs"]:
            print_table(
                ("name", "value", "source"),
                [(config["name"], config["value"], config["source"]) for config in topic["configs"]],
                title="Settings",
                kind="config",
            )


def print_matches(described: Sequence[dict[str, Any]]) -> None:
    """Prints the partitions that match the filters, of all topics in one table."""
    print_table(
        ("topic", *_PARTITION_COLUMNS),
        [
            [topic["name"], *(_cell(partition, column) for column in _PARTITION_COLUMNS)]
            for topic in described
            for partition in topic["partitions"]
        ],
    )


_JSON_NAMES = {
    "partition": "partition",
    "leader": "leader",
    "epoch": "leaderEpoch",
    "replicas": "replicas",
    "isr": "isr",
    "offline": "offlineReplicas",
    "start": "startOffset",
    "end": "endOffset",
    "elr": "eligibleLeaderReplicas",
}


def _cell(partition: Mapping[str, Any], column: str) -> Any:
    if column != "lag":
        return partition[_JSON_NAMES[column]]
    # The leader's own lag is always 0.
    followers = [told for told in partition["replicaLag"] if told["broker"] != partition["leader"]]
    return [f"{told['broker']}={'?' if told['lag'] is None else told['lag']}" for told in followers]


async def _describe(
    admin: Admin, topic: TopicDescription, filters: Collection[PartitionFilter]
) -> dict[str, Any] | None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
    configs = (await admin.describe_configs([resource]))[resource]
    min_isr = next((int(entry.value) for entry in configs if entry.name == _MIN_ISR and entry.value), 1)
    live = admin.client.cluster.brokers
    partitions = [
        partition
        for partition in topic.partitions
        if not filters or any(_MATCHES[each](partition, min_isr, live) for each in filters)
    ]
    if filters and not partitions:
        return None
    # Without a leader there are no offsets; don't wait for one.
    led = [TopicPartition(topic.name, partition.index) for partition in partitions if partition.leader in live]
    starts = await _offsets(admin, led, EARLIEST)
    ends = await _offsets(admin, led, LATEST)
    replicas = [
        TopicPartitionReplica(topic.name, partition.index, broker)
        for partition in partitions
        if len(partition.replicas) > 1
        for broker in partition.replicas
    ]
    log_ends = await replica_ends(admin.client, replicas)
    return {
        "name": topic.name,
        "topicId": uuid_text(topic.id),
        "internal": is_internal(admin.client.cluster.topics[topic.name]),
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader,
                "leaderEpoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offlineReplicas": list(partition.offline_replicas),
                "startOffset": starts.get(partition.index),
                "endOffset": ends.get(partition.index),
                "eligibleLeaderReplicas": _listed(partition.eligible_leader_replicas),
                "lastKnownEligibleLeaderReplicas": _listed(partition.last_known_elr),
                "replicaLag": _lags(topic.name, partition, log_ends),
            }
            for partition in partitions
        ],
        "configs": [_config_as_json(entry) for entry in configs if not entry.is_default],
    }


def _lags(
    topic: str, partition: PartitionDescription, ends: Mapping[TopicPartitionReplica, int]
) -> list[dict[str, Any]]:
    """Records behind the leader; None if the replica or its leader does not report its log end."""
    if len(partition.replicas) == 1:
        return []
    told = []
    leader_end = None
    if partition.leader is not None:
        leader_end = ends.get(TopicPartitionReplica(topic, partition.index, partition.leader))
    for broker in partition.replicas:
        end = ends.get(TopicPartitionReplica(topic, partition.index, broker))
        # A follower that was asked after the leader may have more already.
        lag = None if end is None or leader_end is None else max(0, leader_end - end)
        told.append({"broker": broker, "logEndOffset": end, "lag": lag})
    return told


def _is_under_min_isr(partition: PartitionDescription, min_isr: int) -> bool:
    return len(partition.isr) < _effective(min_isr, partition)


def _effective(min_isr: int, partition: PartitionDescription) -> int:
    """Caps min.insync.replicas at the number of replicas."""
    return min(min_isr, len(partition.replicas))


_MATCHES: Mapping[PartitionFilter, Callable[[PartitionDescription, int, Collection[int]], bool]] = {
    PartitionFilter.UNDER_REPLICATED: lambda partition, min_isr, live: len(partition.isr) < len(partition.replicas),
    PartitionFilter.UNDER_MIN_ISR: lambda partition, min_isr, live: _is_under_min_isr(partition, min_isr),
    PartitionFilter.AT_MIN_ISR: lambda partition, min_isr, live: len(partition.isr) == _effective(min_isr, partition),
    PartitionFilter.UNAVAILABLE: lambda partition, min_isr, live: partition.leader not in live,
}


def _listed(brokers: tuple[int, ...] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)


async def _offsets(admin: Admin, partitions: Sequence[TopicPartition], which: int) -> dict[int, int]:
    try:
        listed = await admin.list_offsets(dict.fromkeys(partitions, which))
    except ClientError:
        # If a partition has lost its leader, only its offsets are missing.
        return {}
    return {partition.partition: found.offset for partition, found in listed.items()}


def _config_as_json(entry: ConfigEntry) -> dict[str, Any]:
    return {"name": entry.name, "value": entry.value, "source": entry.source.name}
