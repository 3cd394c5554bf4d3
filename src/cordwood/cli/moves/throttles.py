"""Replication throttles during moves, set where kafka-reassign-partitions sets them: rates on brokers, and lists of
throttled replicas on topics."""

from collections.abc import Collection, Mapping, Sequence

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import AlterOperation, ConfigChange, ConfigResource, ConfigResourceType, ConfigSource
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.cluster import TopicPartition

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"

_SIZE_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def parse_rate(text: str) -> int:
    """Parses bytes per second: 50000000, 50M. Raises `ValueError`."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (number.isascii() and number.isdecimal()) or unit not in _SIZE_UNITS or not int(number):
        raise ValueError(f"{text!r} is not a number of bytes a second, such as 50000000 or 50M")
    return int(number) * _SIZE_UNITS[unit]


async def set_throttles(admin: Admin, moves: Mapping[TopicPartition, PartitionReassignment], rate: int) -> None:
    """Throttles these moves and those already in progress: a topic's list of replicas is replaced."""
    under_way = await admin.list_partition_reassignments()
    everything = {**under_way, **moves}
    topics = {partition.topic for partition in moves}
    leaders: dict[str, list[str]] = {topic: [] for topic in topics}
    followers: dict[str, list[str]] = {topic: [] for topic in topics}
    for partition, move in everything.items():
        if partition.topic in topics:
            for broker in move.replicas:
                listed = followers if broker in move.adding_replicas else leaders
                listed[partition.topic].append(f"{partition.partition}:{broker}")
    # Brokers that are down cannot be configured, and copy nothing either.
    live = {broker.id for broker in (await admin.describe_cluster()).brokers}
    brokers = sorted({broker for move in moves.values() for broker in move.replicas} & live)
    changes: dict[ConfigResource, Sequence[ConfigChange]] = {
        ConfigResource(ConfigResourceType.BROKER, str(broker)): [
            ConfigChange(name, AlterOperation.SET, str(rate)) for name in _RATES
        ]
        for broker in brokers
    }
    for topic in sorted(topics):
        changes[ConfigResource(ConfigResourceType.TOPIC, topic)] = [
            ConfigChange(_LEADERS, AlterOperation.SET, ",".join(leaders[topic])),
            ConfigChange(_FOLLOWERS, AlterOperation.SET, ",".join(followers[topic])),
        ]
    await admin.incremental_alter_configs(changes)


async def remove_throttles(admin: Admin, topics: Collection[str] | None = None) -> list[ConfigResource]:
    """Removes throttles from topics without moves in progress (from all of them by default), and from all brokers once
    nothing moves. Returns the changed resources."""
    moving = {partition.topic for partition in await admin.list_partition_reassignments()}
    present = await admin.list_topics(internal=True)
    chosen = [name for name in present if name not in moving and (topics is None or name in topics)]
    found = await throttled(admin, chosen, with_brokers=not moving)
    if found:
        await admin.incremental_alter_configs(
            {
                resource: [ConfigChange(name, AlterOperation.DELETE) for name in names]
                for resource, names in found.items()
            }
        )
    return list(found)


async def throttled(
    admin: Admin, topics: Collection[str], *, with_brokers: bool = True
) -> dict[ConfigResource, list[str]]:
    """Returns the resources with dynamic throttles, and the setting names."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    if with_brokers:
        cluster = await admin.describe_cluster()
        resources += [ConfigResource(ConfigResourceType.BROKER, str(broker.id)) for broker in cluster.brokers]
    if not resources:
        return {}
    own = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
    names = {ConfigResourceType.TOPIC: (_LEADERS, _FOLLOWERS), ConfigResourceType.BROKER: _RATES}
    found = {}
    for resource, entries in (await admin.describe_configs(resources)).items():
        present = [entry.name for entry in entries if entry.name in names[resource.type] and entry.source in own]
        if present:
            found[resource] = present
    return found
