"""The Random port: one seeded source per node, so that a seed replays a run."""

import random
from typing import Protocol

# The digit of the URL-safe base64, in which UUIDs are written.
_HYPHEN = 62


class Random(Protocol):
    def below(self, bound: int) -> int:
        """A random integer from 0 up to, but not including, `bound`."""

    def fork(self, purpose: str) -> "Random":
        """An independent source: its values depend on the seed and the purpose, not on other draws."""


class SeededRandom:
    def __init__(self, seed: int | str | None = None) -> None:
        self._seed = random.getrandbits(63) if seed is None else seed
        self._source = random.Random(self._seed)

    def below(self, bound: int) -> int:
        return self._source.randrange(bound)

    def fork(self, purpose: str) -> "SeededRandom":
        return SeededRandom(f"{self._seed}/{purpose}")


def new_uuid(random: Random) -> bytes:
    """Returns a random UUID (RFC 9562, version 4). As with Kafka's, its text does not begin with a hyphen, so that it
    is never mistaken for an option of a command."""
    while True:
        uuid = bytearray(random.below(1 << 128).to_bytes(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if uuid[0] >> 2 != _HYPHEN:
            return bytes(uuid)
