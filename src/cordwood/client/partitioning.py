"""Which partition a record goes to: by its key, or else one partition for a while and then another; sans-IO."""

from cordwood.runtime.randomness import Random
from cordwood.wire.hashing import partition_for_key


class StickyPartitioner:
    """As Kafka's default: murmur2 of the key. Records without one stay together for a batch's worth of bytes,
    so that batches are large, and then go to another partition, so that all get alike (KIP-794)."""

    def __init__(self, partition_count: int, stick_bytes: int, random: Random) -> None:
        self._count = partition_count
        self._stick_bytes = stick_bytes
        self._random = random
        self._current = random.below(partition_count)
        self._given_bytes = 0

    def partition(self, key: bytes | None, size: int) -> int:
        """`size` is that of the record, of which only those without a key count."""
        if key is not None:
            return partition_for_key(key, self._count)
        if self._given_bytes >= self._stick_bytes and self._count > 1:
            # Any but the current one.
            self._current = (self._current + 1 + self._random.below(self._count - 1)) % self._count
            self._given_bytes = 0
        self._given_bytes += size
        return self._current
