"""Ranges of offsets, and tasks that read them: large ranges are split, small ones share a task."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from cordwood.client.cluster import TopicPartition

SMALL_TASK: Final = 500_000
"""So many records keep a task busy for longer than Spark takes to start it."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition from `start` up to, and without, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def split(self, parts: int) -> list["OffsetRange"]:
        """Splits into sizes as equal as possible."""
        edges = [self.start + self.size * part // parts for part in range(parts + 1)]
        return [OffsetRange(self.partition, start, end) for start, end in pairwise(edges) if start < end]


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """The ranges that a Spark task reads, one after another."""

    ranges: tuple[OffsetRange, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ranges)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of the number and size of tasks."""

    min_tasks: int | None = None
    max_records: int | None = None
    parallel_tasks: int | None = None
    """Number of tasks that run at once, where that is known: small ranges share tasks as long as there are so many."""

    def tasks(self, ranges: Iterable[OffsetRange]) -> list[ReadTask]:
        split = split_ranges(ranges, self.min_tasks, self.max_records)
        if self.parallel_tasks is None:
            return [ReadTask((each,)) for each in split]
        most = SMALL_TASK if self.max_records is None else min(self.max_records, SMALL_TASK)
        return share_tasks(split, max(self.parallel_tasks, self.min_tasks or 1), most)


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """As Spark's connector: no range of more than `max_records`, and then about `min_partitions` in all."""
    found = [each for each in ranges if each.size > 0]
    if max_records is not None:
        found = [part for each in found for part in each.split(-(-each.size // max_records))]
    if min_partitions is None or min_partitions <= len(found):
        return found
    return _split_in_proportion(found, min_partitions)


def _split_in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Small ranges stay whole, so that the large ones get all the splits that are left over."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _parts(each.size, total, wanted) == 1}
    left = total - sum(each.size for each in whole)
    wanted_left = max(wanted - len(whole), 1)
    found = []
    for each in ranges:
        found += [each] if each in whole else each.split(_parts(each.size, left, wanted_left))
    return found


def _place(each: OffsetRange) -> tuple[TopicPartition, int]:
    return each.partition, each.start


def _parts(size: int, total: int, wanted: int) -> int:
    # Halves go up, where Python's round would go to the even number.
    return max((2 * size * wanted + total) // (2 * total), 1)


def share_tasks(ranges: Sequence[OffsetRange], least: int, most_records: int) -> list[ReadTask]:
    """Combines small ranges into tasks of equal sizes, if that leaves at least `least` tasks and none has too many
    records. A task costs Spark tens of milliseconds of overhead, which would dominate a batch of a few records from
    each of many partitions.
    """
    small = [each for each in ranges if 2 * each.size <= most_records]
    alone = [ReadTask((each,)) for each in ranges if 2 * each.size > most_records]
    # Twice as many as the records need, since ranges do not add up to full tasks.
    wanted = max(least - len(alone), -(-2 * sum(each.size for each in small) // most_records))
    if wanted >= len(small):
        return [ReadTask((each,)) for each in ranges]
    # The largest first, each to the task that has least.
    loads = [(0, number) for number in range(wanted)]
    shares: list[list[OffsetRange]] = [[] for _ in loads]
    for each in sorted(small, key=lambda each: each.size, reverse=True):
        load, number = heapq.heappop(loads)
        shares[number].append(each)
        heapq.heappush(loads, (load + each.size, number))
    return alone + [ReadTask(tuple(sorted(share, key=_place))) for share in shares]
