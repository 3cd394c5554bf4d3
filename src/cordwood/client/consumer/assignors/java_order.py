"""The order in which a Java leader of a group walks over its members, topics and partitions.

With the same order there are the same results, so that little moves when the lead goes from one to the other.
"""

from collections.abc import Collection

from cordwood.client.cluster import TopicPartition
from cordwood.wire.hashing import string_hash
from cordwood.wire.java_order import in_table_order


def in_string_order(keys: Collection[str]) -> list[str]:
    return in_table_order(keys, string_hash)


def first_partition(partitions: Collection[TopicPartition]) -> TopicPartition:
    return in_table_order(sorted(partitions), _partition_hash)[0]


def _partition_hash(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + string_hash(partition.topic)
