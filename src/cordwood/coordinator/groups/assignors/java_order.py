"""The order in which Kafka's coordinator iterates over members, topics and partitions.

Keys in the same slot of Java's hash table come in insertion order, which Kafka leaves to chance; ours are inserted
sorted.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from struct import Struct

from cordwood.wire.hashing import string_hash
from cordwood.wire.java_order import in_table_order
from cordwood.wire.primitives import Uuid

# A group is reassigned whenever a member joins or leaves, and hashing the ids of 500 members takes 7 ms.
_REMEMBERED_HASHES = 1 << 14
_MASK = 0xFFFFFFFF
_TWO_LONGS = Struct(">qq")


def in_member_order(member_ids: Collection[str]) -> list[str]:
    return in_table_order(sorted(member_ids), _string_hash)


def in_topic_order(topic_ids: Collection[Uuid]) -> list[Uuid]:
    return in_table_order(sorted(topic_ids, key=uuid_rank), _uuid_hash)


def in_partition_order(partitions: Collection[int]) -> list[int]:
    return in_table_order(sorted(partitions), int)


def uuid_rank(uuid: Uuid) -> tuple[int, int]:
    """Java compares uuids as two signed numbers."""
    high, low = _TWO_LONGS.unpack(uuid)
    return high, low


@lru_cache(_REMEMBERED_HASHES)
def _string_hash(text: str) -> int:
    return string_hash(text)


def _uuid_hash(uuid: Uuid) -> int:
    number = int.from_bytes(uuid)
    halves = number >> 64 ^ number
    return (halves >> 32 ^ halves) & _MASK
