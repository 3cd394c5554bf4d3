"""The output of `cordwood topic describe`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from cordwood.cli.terminal.output import print_facts, print_table
from cordwood.cli.topics.topic_choice import is_internal
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.offsets import EARLIEST, LATEST
from cordwood.wire.primitives import uuid_text

# Values that the topic has from the brokers' files are worth a line, too; those of nobody are not.
_PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "isr", "offline", "start", "end")
_AT_ONCE = 8


async def describe_topics(admin: Admin, topics: Sequence[Topic]) -> list[dict[str, Any]]:
    """As JSON has it."""
    await admin.client.topics([topic.name for topic in topics])
    room = asyncio.Semaphore(_AT_ONCE)

    async def describe(topic: Topic) -> dict[str, Any]:
        async with room:
            return await _describe(admin, topic)

    return await asyncio.gather(*(describe(topic) for topic in topics))


def print_descriptions(described: Sequence[dict[str, Any]]) -> None:
    for position, topic in enumerate(described):
        if position:
            print()
        print_facts([("topic", topic["name"]), ("id", topic["topicId"]), ("internal", topic["internal"])])
        print_table(
            _PARTITION_COLUMNS,
            [[partition[_JSON_NAMES[column]] for column in _PARTITION_COLUMNS] for partition in topic["partitions"]],
            title="Partitions",
            kind="partition",
        )
        if topic["configs"]:
            print_table(
                ("name", "value", "source"),
                [(config["name"], config["value"], config["source"]) for config in topic["configs"]],
                title="Settings",
                kind="config",
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
}


async def _describe(admin: Admin, topic: Topic) -> dict[str, Any]:
    # Without a leader there are no offsets, and waiting for one is not what was asked.
    led = [
        TopicPartition(topic.name, partition.index)
        for partition in topic.partitions
        if partition.leader in admin.client.cluster.brokers
    ]
    starts = await _offsets(admin, led, EARLIEST)
    ends = await _offsets(admin, led, LATEST)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
    configs = (await admin.describe_configs([resource]))[resource]
    return {
        "name": topic.name,
        "topicId": uuid_text(topic.id),
        "internal": is_internal(topic),
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "leaderEpoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offlineReplicas": list(partition.offline),
                "startOffset": starts.get(partition.index),
                "endOffset": ends.get(partition.index),
            }
            for partition in topic.partitions
        ],
        "configs": [_config_as_json(entry) for entry in configs if not entry.is_default],
    }


async def _offsets(admin: Admin, partitions: Sequence[TopicPartition], which: int) -> dict[int, int]:
    try:
        listed = await admin.list_offsets(dict.fromkeys(partitions, which))
    except ClientError:
        # A partition that lost its leader meanwhile costs the offsets, not the description.
        return {}
    return {partition.partition: found.offset for partition, found in listed.items()}


def _config_as_json(entry: ConfigEntry) -> dict[str, Any]:
    return {"name": entry.name, "value": entry.value, "source": entry.source.name}
