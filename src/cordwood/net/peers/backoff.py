"""Exponential back-off: doubling, bounded, with a jitter of a fifth (KIP-580)."""

from cordwood.runtime.randomness import Random

_SCATTER_PERCENT = 20


class Backoff:
    def __init__(self, first_ms: int, max_ms: int, random: Random) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._random = random

    def pause_s(self, failures: int) -> float:
        """The pause after this many failures in a row, from 1 on."""
        # The exponent is bounded, so that a broker that is away for a week makes no huge number.
        exact_ms = min(self._max_ms, self._first_ms << min(failures - 1, 20))
        percent = 100 - _SCATTER_PERCENT + self._random.below(2 * _SCATTER_PERCENT + 1)
        return min(self._max_ms, exact_ms * percent / 100) / 1000
