# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""Keys to their last offsets in bounded memory: what compaction knows of the dirty part of a log.

One buffer of 24-byte entries: a 16-byte digest of the key and the offset. Digests stand for their keys, as in Kafka:
two keys with the same 128 bits are not to be expected. Compiled like the room of `wire/records`, because every record
that is compacted passes through here twice; the same file runs uncompiled.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import cython  # type: ignore[import-untyped]

if cython.compiled:
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]

ENTRY_BYTES = 24
"""Two words of digest, and one of the offset + 1, which is 0 in an empty entry."""

_WORDS = struct.Struct("=QQ")
# Copying one that is set up takes half the time of setting up one for each key.
_HASHER = blake2b(digest_size=16)


class OffsetMap:
    """Open addressing with double hashing. Takes `capacity` keys; what is put again only moves up."""

    _words: Any

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """At most `max_bytes` (but room for a key there always is), and less where `expected_keys` need less."""
        wanted = int(expected_keys / load_factor * 1.5) + 16
        # A prime, so that a step of any length comes past every entry.
        self.slots = _largest_prime_up_to(min(max_bytes // ENTRY_BYTES, wanted))
        self.capacity = max(min(int(self.slots * load_factor), self.slots - 1), 1)
        self.count = 0
        self._words = memoryview(bytearray(self.slots * ENTRY_BYTES)).cast("Q")
        self._first = 0
        self._second = 0

    def put_all(self, keys: Sequence[tuple[int, bytes | None, bool]], first_offset: int) -> bool:
        """Notes the offsets of a batch's keys, from `first_offset` on; False, when they do not all fit.

        Then some of them are noted. That does no harm: a key's older records may go, since the batch itself stays.
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
        """The key's last offset; -1 if it is not here."""
        offset_and_one: int = self._words[self._find(key) + 2]
        return offset_and_one - 1

    def retain(
        self, keys: Sequence[tuple[int, bytes | None, bool]], end_offset: int, keep_tombstones: bool
    ) -> tuple[bytearray, int]:
        """A byte for each record of a batch, 0 for those that go; and how many go because they have no key.

        Records at or past `end_offset`, where the map ends, stay. Before it the last one of each key stays, but not if
        it is a tombstone that has served its time.
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
        """Where the key's entry begins, or the empty one that it would take. `_first` and `_second` are its digest."""
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
    """2 at least, so that there is always an empty entry to end a search."""
    while number > 3 and any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return max(number, 2)
