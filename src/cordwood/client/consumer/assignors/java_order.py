"""The order in which Java walks a hash table.

Kafka's assignors walk over hash maps, and who comes first decides who gets one more and what is kept. Walking in Java's
order gives the results that a Java leader would give, so that little moves when the lead goes from one to the other.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

from cordwood.client.cluster import TopicPartition
from cordwood.wire.hashing import string_hash

Key = TypeVar("Key")

_SMALLEST_TABLE = 16
_MASK = 0xFFFFFFFF


def in_string_order(keys: Collection[str]) -> list[str]:
    """Keys that share a slot stay as they come."""
    return _in_table_order(keys, string_hash)


def first_partition(partitions: Collection[TopicPartition]) -> TopicPartition:
    return _in_table_order(sorted(partitions), _partition_hash)[0]


def _in_table_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    size = _SMALLEST_TABLE
    # A table doubles when it is more than three quarters full.
    while len(keys) > size * 3 // 4:
        size *= 2

    def slot(key: Key) -> int:
        hashed = hash_of(key) & _MASK
        return (hashed ^ hashed >> 16) & (size - 1)

    return sorted(keys, key=slot)


def _partition_hash(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + string_hash(partition.topic)
