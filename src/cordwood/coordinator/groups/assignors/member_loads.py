"""Chooses the member that gets the next partition, and the one that gives one up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MemberLoads:
    """Members ordered by load, with a level that rises from below and one that sinks from above.

    The lower range holds the members at the rising level, the upper range those at the sinking level. When every member
    of a range had its turn, the level moves by one, and the members with exactly that load join the range. The caller
    updates the loads: it increments that of `next_least_loaded` and decrements that of `next_most_loaded`.
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
        """Returns None if all members were passed over."""
        if self._upper_next < self._upper_start:
            if self._upper_start == self._upper_end and self._upper_start > 0:
                # The whole range was passed over: continue with the next lower load, however far down.
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
        """Excludes the member that `next_most_loaded` returned last: it has nothing to give."""
        place, last = self._upper_next + 1, self._upper_end - 1
        self._sorted[place], self._sorted[last] = self._sorted[last], self._sorted[place]
        self._upper_end = last
