"""The order in which a group leader in Java iterates over members, topics and partitions.

The same order gives the same results, so that little moves when the leader changes.
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
