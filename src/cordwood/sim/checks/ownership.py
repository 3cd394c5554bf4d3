"""A partition is owned by one member of a group at a time, and by one in a generation.

A power loss that removes the end of a log may reset a group to an earlier state. In a cluster a former coordinator that
doesn't know its successor yet may still accept heartbeats, as in Kafka: then two members own a partition at a time, and
commits of the former owner don't count.
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
            # It may have been considered dead before it got the answer.
            continue
        if longest is not None and tenure.begun_s < longest.ended_s and tenure.owner != longest.owner:
            yield Violation("a partition has one owner at a time", f"{longest}, and {tenure}")
        if longest is None or tenure.ended_s > longest.ended_s:
            longest = tenure
