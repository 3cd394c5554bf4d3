"""The Random port: one seeded source for a node, so that a seed replays a run."""

import random
from typing import Protocol


class Random(Protocol):
    def below(self, bound: int) -> int:
        """A whole number from 0 up to, not including, `bound`."""


class SeededRandom:
    def __init__(self, seed: int | None = None) -> None:
        self._source = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._source.randrange(bound)
