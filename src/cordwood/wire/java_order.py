"""The iteration order of Java's hash tables.

Kafka's assignors iterate over hash maps of members, topics and partitions, and the order decides which member gets an
extra partition and what is kept. Iterating in Java's order gives Kafka's results, identically in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

Key = TypeVar("Key")

_SMALLEST_TABLE = 16
_MASK = 0xFFFFFFFF


def in_table_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Sorts keys by table slot. Keys in the same slot keep their order; in Java that is insertion order."""
    last_slot = _table_size(len(keys)) - 1

    def slot(key: Key) -> int:
        hashed = hash_of(key) & _MASK
        return (hashed ^ hashed >> 16) & last_slot

    return sorted(keys, key=slot)


def _table_size(key_count: int) -> int:
    """A table doubles when it is more than three quarters full."""
    size = _SMALLEST_TABLE
    while key_count > size * 3 // 4:
        size *= 2
    return size
