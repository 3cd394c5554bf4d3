"""The orders in which assignors walk over members, topics and partitions.

They are those of a Java leader of the group: with the same order there are the same results, so that little moves when
the lead goes from one to the other.
"""

from collections.abc import Collection, Mapping

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import Subscription
from cordwood.wire.hashing import string_hash
from cordwood.wire.java_order import in_table_order


def in_member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by their instance ids, then the others by their member ids (KIP-345)."""

    def rank(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].group_instance_id
        return (instance_id is None, member if instance_id is None else instance_id)

    return sorted(subscriptions, key=rank)


def in_string_order(keys: Collection[str]) -> list[str]:
    return in_table_order(keys, string_hash)


def first_partition(partitions: Collection[TopicPartition]) -> TopicPartition:
    return in_table_order(sorted(partitions), _partition_hash)[0]


def _partition_hash(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + string_hash(partition.topic)
