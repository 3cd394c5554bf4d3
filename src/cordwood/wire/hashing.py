# cython: language_level=3, annotation_typing=False
"""Java's hashes, which clients and brokers use to place keys and groups. One of the compiled modules."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cordwood.wire.record import Buffer

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-untyped]
        Py_buffer,
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )

MASK = 0xFFFFFFFF
MURMUR2_SEED = 0x9747B28C
MURMUR2_FACTOR = 0x5BD1E995


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """Returns the partition that Kafka's default partitioner chooses for this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partition_for_id(coordinated_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` for a group, or of `__transaction_state` for a transactional id."""
    hashed = string_hash(coordinated_id)
    # Java's abs() leaves the most negative number unchanged, so Kafka uses 0 for it.
    return 0 if hashed == -(2**31) else abs(hashed) % partition_count


def murmur2(data: Buffer) -> int:
    """Kafka's 32-bit MurmurHash2, signed."""
    if cython.compiled:
        buffer = cython.declare(Py_buffer)
        PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
        hashed = _HASHER.of(cython.cast(cython.p_const_uchar, buffer.buf), 0, buffer.len)
        PyBuffer_Release(cython.address(buffer))
    else:
        hashed = _HASHER.of(data, 0, len(data))
    return _signed(hashed)


class Murmur2:
    """The hash of bytes in a buffer (at a pointer, when compiled), unsigned."""

    def of(self, data: Any, start: int, length: int) -> int:
        hashed = MURMUR2_SEED ^ length
        position = start
        end = start + (length & ~3)
        while position < end:
            word = data[position + 3] << 24 | data[position + 2] << 16 | data[position + 1] << 8 | data[position]
            word = word * MURMUR2_FACTOR & MASK
            word = (word ^ word >> 24) * MURMUR2_FACTOR & MASK
            hashed = hashed * MURMUR2_FACTOR & MASK ^ word
            position += 4
        rest = length & 3
        if rest:
            if rest == 3:
                hashed ^= data[position + 2] << 16
            if rest >= 2:
                hashed ^= data[position + 1] << 8
            hashed ^= data[position]
            hashed = hashed * MURMUR2_FACTOR & MASK
        hashed = (hashed ^ hashed >> 13) * MURMUR2_FACTOR & MASK
        return hashed ^ hashed >> 15


_HASHER = Murmur2()


@lru_cache(maxsize=10_000)
def string_hash(text: str) -> int:
    """Java's String.hashCode, signed: over UTF-16 units, so a character outside the basic plane counts as two."""
    units = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for start in range(0, len(units), 2):
        hashed = hashed * 31 + int.from_bytes(units[start : start + 2], "little") & MASK
    return _signed(hashed)


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number
