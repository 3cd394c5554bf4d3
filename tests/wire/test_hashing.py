"""Where keys and groups belong. Kafka's own answers for many more are in the vectors."""

from __future__ import annotations

import pytest

from cordwood.wire.hashing import partition_for_id, partition_for_key, string_hash
from tests.wire.rooms import Room, in_each_room


@in_each_room
@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"", 275646681), (b"+", -1120822521), (b"%p", -1296934138), (b"21", -973932308), (b"foobar", -790332482)],
)
def test_murmur2_is_kafkas(room: Room, key: bytes, hashed: int) -> None:
    assert room.hashing.murmur2(key) == hashed
    assert room.hashing.murmur2(memoryview(key)) == hashed


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_string_hash_is_javas(text: str, hashed: int) -> None:
    assert string_hash(text) == hashed


def test_a_negative_hash_loses_its_sign_bit_for_keys() -> None:
    assert partition_for_key(b"+", 50) == (-1120822521 & 0x7FFFFFFF) % 50 == 27


def test_a_negative_hash_is_made_positive_for_groups() -> None:
    assert partition_for_id("polygenelubricants", 50) == 0
    assert partition_for_id("café-東京", 50) == 41
