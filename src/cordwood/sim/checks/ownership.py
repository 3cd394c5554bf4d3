"""A partition is in the hands of one member of a group at a time, and of one in a generation.

Where a power loss may take the end of a log, it may take a group back to what it was. In a cluster a broker that has
not heard yet that another one coordinates the group may go on to hear a member's heartbeats, as with Kafka: then two
have a partition at a time, and what the former one commits does not count.
"""

from collections.abc import Iterator

from cordwood.sim.histories.groups import Tenure
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.partition import Partition

from .violation import Violation


def a_partition_has_one_owner(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX:
        return
    tenures: dict[tuple[str, Partition], list[Tenure]] = {}
    assigned: dict[tuple[str, Partition, int], Tenure] = {}
    for tenure in history.groups.tenures:
        tenures.setdefault((tenure.group, tenure.partition), []).append(tenure)
        if tenure.generation >= 0:
            first = assigned.setdefault((tenure.group, tenure.partition, tenure.generation), tenure)
            if first.owner != tenure.owner:
                yield Violation("a partition has one owner in a generation", f"{first}, and {tenure}")
    if not history.replicas.states:
        for some in tenures.values():
            yield from _overlaps(some)


def _overlaps(tenures: list[Tenure]) -> Iterator[Violation]:
    longest: Tenure | None = None
    for tenure in sorted(tenures, key=lambda tenure: tenure.begun_s):
        if tenure.ended_s <= tenure.begun_s:
            # It may have been taken for dead before it was told.
            continue
        if longest is not None and tenure.begun_s < longest.ended_s and tenure.owner != longest.owner:
            yield Violation("a partition has one owner at a time", f"{longest}, and {tenure}")
        if longest is None or tenure.ended_s > longest.ended_s:
            longest = tenure
