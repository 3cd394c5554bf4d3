"""The uniform assignor where all members subscribe to the same topics.

Shares differ by at most one. A member keeps its partitions up to its share; the excess, and unowned partitions, go to
members with less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from cordwood.coordinator.groups.assignors.java_order import in_member_order, in_partition_order, in_topic_order
from cordwood.coordinator.groups.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberPartitions,
    TopicDescriber,
    known_partition_count,
)
from cordwood.wire.primitives import Uuid

Partition = tuple[Uuid, int]


def assign_homogeneous(spec: GroupSpec, topics: TopicDescriber) -> Assignment:
    member_ids = in_member_order(spec.members)
    topic_ids = in_topic_order(spec.members[member_ids[0]].topic_ids)
    counts = {topic_id: known_partition_count(topics, topic_id) for topic_id in topic_ids}

    share, larger_shares = divmod(sum(counts.values()), len(member_ids))
    unowned = _unowned(spec, counts)
    assignment: Assignment = {}
    wanting: dict[str, int] = {}
    for number, member_id in enumerate(member_ids):
        is_larger = larger_shares > 0
        kept, revoked, room = _keep(spec.members[member_id].assigned, counts, share + is_larger)
        assignment[member_id] = kept
        unowned += revoked
        # A larger share goes to a member that already has that many partitions, as long as enough of them remain for
        # the members after it.
        if is_larger and room > 0 and len(member_ids) - number > larger_shares:
            is_larger = False
            room -= 1
        larger_shares -= is_larger
        if room > 0:
            wanting[member_id] = room

    pool = iter(unowned)
    for member_id, room in wanting.items():
        assignment[member_id] = _with_more(assignment[member_id], islice(pool, room))
    return assignment


def _unowned(spec: GroupSpec, counts: Mapping[Uuid, int]) -> list[Partition]:
    owned: dict[Uuid, set[int]] = {topic_id: set() for topic_id in counts}
    for member in spec.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in owned:
                owned[topic_id] |= partitions
    return [
        (topic_id, partition)
        for topic_id, count in counts.items()
        for partition in range(count)
        if partition not in owned[topic_id]
    ]


def _keep(
    assigned: MemberPartitions, counts: Mapping[Uuid, int], share: int
) -> tuple[MemberPartitions, list[Partition], int]:
    """Returns the partitions that a member keeps, those taken from it, and how many it may still get."""
    size = sum(map(len, assigned.values()))
    if size <= share and assigned.keys() <= counts.keys():
        return assigned, [], share - size
    kept: dict[Uuid, frozenset[int]] = {}
    revoked: list[Partition] = []
    room = share
    for topic_id in in_topic_order(assigned):
        if topic_id not in counts:
            continue
        partitions = assigned[topic_id]
        if len(partitions) > room:
            ordered = in_partition_order(partitions)
            revoked += ((topic_id, partition) for partition in ordered[room:])
            partitions = frozenset(ordered[:room])
        if partitions:
            kept[topic_id] = partitions
        room -= len(partitions)
    return kept, revoked, room


def _with_more(kept: MemberPartitions, more: Iterator[Partition]) -> MemberPartitions:
    added: dict[Uuid, list[int]] = {}
    for topic_id, partition in more:
        added.setdefault(topic_id, []).append(partition)
    if not added:
        return kept
    return {**kept, **{topic_id: kept.get(topic_id, frozenset()).union(new) for topic_id, new in added.items()}}
