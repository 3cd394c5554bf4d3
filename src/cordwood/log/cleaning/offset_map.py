# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""Maps keys to their last offsets in bounded memory, for the dirty part of a log during compaction.

One buffer of 24-byte entries: a 16-byte digest of the key and the offset. As in Kafka, digests represent their keys: a
collision of 128 bits is not expected. Compiled like `wire/records`, because every compacted record passes through here
twice; the same file also runs uncompiled.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

try:
    import cython  # type: ignore[import-untyped]
except ImportError:
    from cordwood.wire import interpreted as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

ENTRY_BYTES = 24
"""Two words of digest, and one of offset + 1, which is 0 in an empty entry."""

_WORDS = struct.Struct("=QQ")
# Copying a prepared hasher takes half the time of creating one per key.
_HASHER = blake2b(digest_size=16)


class OffsetMap:
    """Open addressing with double hashing. Holds `capacity` keys; the offset of a key only increases."""

    _words: Any

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """Uses at most `max_bytes` (but always room for one key), and less if `expected_keys` need less."""
        wanted = int(expected_keys / load_factor * 1.5) + 16
        # A prime, so that any step size visits every entry.
        self.slots = _largest_prime_up_to(min(max_bytes // ENTRY_BYTES, wanted))
        self.capacity = max(min(int(self.slots * load_factor), self.slots - 1), 1)
        self.count = 0
        self._words = memoryview(bytearray(self.slots * ENTRY_BYTES)).cast("Q")
        self._first = 0
        self._second = 0

    def put_all(self, keys: Sequence[tuple[int, bytes | None, bool]], first_offset: int) -> bool:
        """Records the offsets of a batch's keys, from `first_offset` on; returns False if they do not all fit.

        In that case some are recorded. That is harmless: older records of these keys may be dropped, because the batch
        itself stays.
        """
        for offset, key, _ in keys:
            if key is not None and offset >= first_offset:
                at = self._find(key)
                if self._words[at + 2] == 0:
                    if self.count >= self.capacity:
                        return False
                    self.count += 1
                    self._words[at] = self._first
                    self._words[at + 1] = self._second
                if self._words[at + 2] < offset + 1:
                    self._words[at + 2] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """The key's last offset, or -1."""
        offset_and_one: int = self._words[self._find(key) + 2]
        return offset_and_one - 1

    def retain(
        self, keys: Sequence[tuple[int, bytes | None, bool]], end_offset: int, keep_tombstones: bool
    ) -> tuple[bytearray, int]:
        """Returns a byte for each record of a batch, 0 to drop it, and the number dropped for lack of a key.

        Records at or past `end_offset`, where the map ends, are kept. Below it, the last record of each key is kept,
        unless it is an expired tombstone.
        """
        retained = bytearray(len(keys))
        keyless = 0
        for index, (offset, key, has_value) in enumerate(keys):
            if offset >= end_offset:
                retained[index] = 1
            elif key is None:
                keyless += 1
            elif (has_value or keep_tombstones) and self._words[self._find(key) + 2] <= offset + 1:
                retained[index] = 1
        return retained, keyless

    def _find(self, key: bytes) -> int:
        """Finds the key's entry, or the empty one that it would take. Leaves its digest in `_first` and `_second`."""
        hasher = _HASHER.copy()
        hasher.update(key)
        digest = hasher.digest()
        if cython.compiled:
            memcpy(cython.address(self._first), cython.cast(cython.p_char, digest), 8)
            memcpy(cython.address(self._second), cython.cast(cython.p_char, digest) + 8, 8)
        else:
            self._first, self._second = _WORDS.unpack(digest)
        slot = self._first % self.slots
        step = 1 + self._second % (self.slots - 1)
        at = slot * 3
        while self._words[at + 2] != 0 and (self._words[at] != self._first or self._words[at + 1] != self._second):
            slot += step
            if slot >= self.slots:
                slot -= self.slots
            at = slot * 3
        return at


def _largest_prime_up_to(number: int) -> int:
    """At least 2, so that there is always an empty entry to end a search."""
    while number > 3 and any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return max(number, 2)
