"""Ranges of offsets: what a task reads, and how large ones are split."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from cordwood.client.cluster import TopicPartition


class OffsetRange(InputPartition):
    """The records of a partition from `start` up to, and without, `end`."""

    def __init__(self, partition: TopicPartition, start: int, end: int) -> None:
        self.topic, self.number = partition
        self.start = start
        self.end = end

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    @property
    def size(self) -> int:
        return self.end - self.start

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRange) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.topic, self.number, self.start, self.end))

    def split(self, parts: int) -> list["OffsetRange"]:
        """Of sizes as equal as may be."""
        edges = [self.start + self.size * part // parts for part in range(parts + 1)]
        return [OffsetRange(self.partition, start, end) for start, end in pairwise(edges) if start < end]


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


def _parts(size: int, total: int, wanted: int) -> int:
    # Halves go up, where Python's round would go to the even number.
    return max((2 * size * wanted + total) // (2 * total), 1)
