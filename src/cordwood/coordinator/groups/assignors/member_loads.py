"""Chooses the member that gets the next partition, and the one that gives one up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MemberLoads:
    """Members in the order of their loads, with a level that rises from below and one that sinks from above.

    The lower range are those who have reached the rising level, the upper range those at the sinking one. When all of a
    range had their turn its level moves by one, and the range grows by those whose load is just that. The loads are the
    caller's: it counts up whom `next_least_loaded` named and counts down whom `next_most_loaded` named.
    """

    def __init__(self, members: Iterable[int], loads: Sequence[int]) -> None:
        self._loads = loads
        self._sorted = sorted(members, key=lambda member: (loads[member], member))
        self._lower_level = loads[self._sorted[0]] - 1
        self._lower_end = 0
        self._lower_next = 0
        self._upper_level = loads[self._sorted[-1]] + 1
        self._upper_start = self._upper_end = len(self._sorted)
        self._upper_next = self._upper_end - 1

    def spread(self) -> int:
        return self._loads[self._sorted[-1]] - self._loads[self._sorted[0]]

    def are_even(self) -> bool:
        """True if no further move would improve the balance."""
        return self._upper_level - self._lower_level <= 1

    def next_least_loaded(self) -> int:
        if self._lower_next >= self._lower_end:
            self._lower_level += 1
            while (
                self._lower_end < len(self._sorted) and self._loads[self._sorted[self._lower_end]] == self._lower_level
            ):
                self._lower_end += 1
            self._lower_next = 0
        member = self._sorted[self._lower_next]
        self._lower_next += 1
        return member

    def next_most_loaded(self) -> int | None:
        """None if nobody is left who was not passed over."""
        if self._upper_next < self._upper_start:
            if self._upper_start == self._upper_end and self._upper_start > 0:
                # All of the range were passed over: go down to whoever comes next, however far that is.
                self._upper_level = self._loads[self._sorted[self._upper_start - 1]]
            else:
                self._upper_level -= 1
            while self._upper_start > 0 and self._loads[self._sorted[self._upper_start - 1]] == self._upper_level:
                self._upper_start -= 1
            self._upper_next = self._upper_end - 1
        if self._upper_next < 0:
            return None
        member = self._sorted[self._upper_next]
        self._upper_next -= 1
        return member

    def pass_over_most_loaded(self) -> None:
        """Whoever `next_most_loaded` named last has nothing to give, and is not asked again."""
        place, last = self._upper_next + 1, self._upper_end - 1
        self._sorted[place], self._sorted[last] = self._sorted[last], self._sorted[place]
        self._upper_end = last
