"""The range assignor: every subscriber of a topic gets one stretch of consecutive partitions.

Topics with the same number of partitions and the same subscribers are cut alike, so that a member that joins two topics
gets both sides of a key.
"""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.coordinator.groups.assignors.spec import (
    Assignment,
    GroupSpec,
    TopicDescriber,
    known_partition_count,
)
from cordwood.wire.primitives import Uuid


def assign_range(spec: GroupSpec, topics: TopicDescriber) -> Assignment:
    member_ids = _sorted_members(spec)
    shares: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in member_ids}
    # Sorted, so that equal assignments produce equal responses.
    for topic_id, subscribers in sorted(_subscribers(spec, member_ids).items()):
        stretches = _cut(known_partition_count(topics, topic_id), len(subscribers))
        for member_id, partitions in zip(subscribers, stretches, strict=False):
            shares[member_id][topic_id] = partitions
    return dict(shares)


def _sorted_members(spec: GroupSpec) -> list[str]:
    """Sorts static members first, by instance id, which outlives a restart, unlike a member id."""

    def position(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        # Java compares strings by their UTF-16 units.
        name = member_id if instance_id is None else instance_id
        return instance_id is None, name.encode("utf-16-be", "surrogatepass")

    return sorted(spec.members, key=position)


def _subscribers(spec: GroupSpec, member_ids: Sequence[str]) -> dict[Uuid, Sequence[str]]:
    if spec.is_homogeneous and member_ids:
        return dict.fromkeys(spec.members[member_ids[0]].topic_ids, member_ids)
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in member_ids:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    return dict(subscribers)


def _cut(partition_count: int, subscriber_count: int) -> list[frozenset[int]]:
    """Cuts into shares as equal as possible, the first ones larger by one. No share is empty, so there may be fewer
    than subscribers."""
    size, larger = divmod(partition_count, subscriber_count)
    stretches = []
    start = 0
    for number in range(min(partition_count, subscriber_count)):
        end = start + size + (number < larger)
        stretches.append(frozenset(range(start, end)))
        start = end
    return stretches
