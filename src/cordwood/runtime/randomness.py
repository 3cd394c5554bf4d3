"""The Random port: one seeded source per node, so that a seed replays a run."""

import random
from typing import Protocol


class Random(Protocol):
    def below(self, bound: int) -> int:
        """A random integer from 0 up to, but not including, `bound`."""

    def fork(self, purpose: str) -> "Random":
        """An independent source: what it gives depends on the seed and the purpose, and not on what else is drawn."""


class SeededRandom:
    def __init__(self, seed: int | str | None = None) -> None:
        self._seed = random.getrandbits(63) if seed is None else seed
        self._source = random.Random(self._seed)

    def below(self, bound: int) -> int:
        return self._source.randrange(bound)

    def fork(self, purpose: str) -> "SeededRandom":
        return SeededRandom(f"{self._seed}/{purpose}")
