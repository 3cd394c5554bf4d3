"""The order in which Java walks a hash table.

Kafka's assignors walk over hash maps of members, topics and partitions, and who comes first decides who gets one more
and what is kept. Walking in Java's order gives Kafka's results, and the same ones in every process. Keys that share a
slot of the table come in the order in which they were put in, which Kafka leaves to chance; ours come sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from struct import Struct
from typing import TypeVar

from cordwood.wire.hashing import string_hash
from cordwood.wire.primitives import Uuid

Key = TypeVar("Key")

# A group is assigned anew whenever one of its members comes or goes, and hashing the ids of 500 members takes 7 ms.
_REMEMBERED_HASHES = 1 << 14
_SMALLEST_TABLE = 16
_MASK = 0xFFFFFFFF
_TWO_LONGS = Struct(">qq")


def in_member_order(member_ids: Collection[str]) -> list[str]:
    return _in_table_order(sorted(member_ids), _string_hash)


def in_topic_order(topic_ids: Collection[Uuid]) -> list[Uuid]:
    return _in_table_order(sorted(topic_ids, key=uuid_rank), _uuid_hash)


def in_partition_order(partitions: Collection[int]) -> list[int]:
    return _in_table_order(sorted(partitions), int)


def uuid_rank(uuid: Uuid) -> tuple[int, int]:
    """Java compares uuids as two signed numbers."""
    high, low = _TWO_LONGS.unpack(uuid)
    return high, low


def _in_table_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
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


@lru_cache(_REMEMBERED_HASHES)
def _string_hash(text: str) -> int:
    return string_hash(text)


def _uuid_hash(uuid: Uuid) -> int:
    number = int.from_bytes(uuid)
    halves = number >> 64 ^ number
    return (halves >> 32 ^ halves) & _MASK
