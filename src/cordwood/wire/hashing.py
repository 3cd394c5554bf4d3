"""Java's hashes, on which clients and brokers agree where a key or a group belongs."""

from __future__ import annotations

from functools import lru_cache

from cordwood.wire.record import Buffer

_MASK = 0xFFFFFFFF
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_FACTOR = 0x5BD1E995


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """Where Kafka's default partitioner puts a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partition_for_id(coordinated_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` for a group, or of `__transaction_state` for a transactional id."""
    hashed = string_hash(coordinated_id)
    # Java's abs() leaves the most negative number as it is, so Kafka takes 0 for it.
    return 0 if hashed == -(2**31) else abs(hashed) % partition_count


def murmur2(data: Buffer) -> int:
    """Kafka's 32-bit MurmurHash2, signed."""
    length = len(data)
    hashed = _MURMUR2_SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MURMUR2_FACTOR & _MASK
        word = (word ^ word >> 24) * _MURMUR2_FACTOR & _MASK
        hashed = hashed * _MURMUR2_FACTOR & _MASK ^ word
    if whole < length:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _MURMUR2_FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _MURMUR2_FACTOR & _MASK
    return _signed(hashed ^ hashed >> 15)


@lru_cache(maxsize=10_000)
def string_hash(text: str) -> int:
    """Java's String.hashCode, signed: over UTF-16 units, so a character outside the basic plane counts as two."""
    units = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for start in range(0, len(units), 2):
        hashed = hashed * 31 + int.from_bytes(units[start : start + 2], "little") & _MASK
    return _signed(hashed)


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number
