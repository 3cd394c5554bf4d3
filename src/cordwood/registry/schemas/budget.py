"""A bound on the work that one comparison of schemas may cost: unions within unions can ask for any amount of it."""

from __future__ import annotations

from .schema import InvalidSchema

_COMPARISONS = 50_000


class Budget:
    def __init__(self) -> None:
        self._left = _COMPARISONS

    def spend(self) -> None:
        """Raises `InvalidSchema` when all is spent."""
        self._left -= 1
        if self._left < 0:
            raise InvalidSchema(
                f"The schemas are too complex to compare: more than {_COMPARISONS:,} pairs of types within their unions"
            )
