"""The segments of a log in the order of their offsets."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from .segment import Segment


class Segments:
    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment: Segment) -> bool:
        at = bisect_left(self._bases, segment.base_offset)
        return at < len(self._segments) and self._segments[at] is segment

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def floor(self, offset: int) -> Segment | None:
        """The last segment that begins at or before `offset`."""
        at = bisect_right(self._bases, offset)
        return self._segments[at - 1] if at else None

    def after(self, segment: Segment) -> Segment | None:
        at = bisect_right(self._bases, segment.base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def from_floor(self, offset: int) -> list[Segment]:
        """The segment that contains `offset` and all later ones."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def between(self, start_offset: int, end_offset: int) -> list[Segment]:
        """The segments that begin at or after one offset and before another."""
        return self._segments[bisect_left(self._bases, start_offset) : bisect_left(self._bases, end_offset)]

    def add(self, segment: Segment) -> None:
        at = bisect_left(self._bases, segment.base_offset)
        self._segments.insert(at, segment)
        self._bases.insert(at, segment.base_offset)

    def remove(self, segment: Segment) -> None:
        at = bisect_left(self._bases, segment.base_offset)
        assert self._segments[at] is segment
        del self._segments[at], self._bases[at]
