"""The order in which Java walks a hash table.

Kafka's assignors walk over hash maps of members, topics and partitions, and who comes first decides who gets one more
and what is kept. Walking in Java's order gives Kafka's results, and the same ones in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

Key = TypeVar("Key")

_SMALLEST_TABLE = 16
_MASK = 0xFFFFFFFF


def in_table_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Keys that share a slot of the table stay as they come; in Java, as they were put in."""
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
