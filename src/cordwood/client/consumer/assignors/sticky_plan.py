"""Sticky assignment: balanced, with as few moves as possible.

If all members have the same subscription, `even_shares` does it in one pass; otherwise `balancing` moves partitions
until no move improves the balance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import NO_GENERATION, GroupTopics, Subscription
from cordwood.client.consumer.assignors.balancing import Balancing
from cordwood.client.consumer.assignors.even_shares import EvenShares
from cordwood.client.consumer.assignors.order import in_string_order
from cordwood.client.consumer.assignors.racks import Near

Given = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class MemberData:
    """The partitions that a member claims to have owned, and the generation; None if it does not report it."""

    partitions: Sequence[TopicPartition]
    generation_id: int | None


@dataclass(frozen=True, slots=True)
class StickyPlan:
    given: Given
    moving: Mapping[TopicPartition, str] | None
    """Partitions that move from one member to another, with their new owner; None if unknown."""


def plan(
    topics: GroupTopics,
    subscriptions: Mapping[str, Subscription],
    member_data: Callable[[Subscription], MemberData],
) -> StickyPlan:
    read = frozenset(topic for subscription in subscriptions.values() for topic in subscription.topics)
    topics = GroupTopics(
        {
            topic: topics.partition_counts[topic]
            for topic in in_string_order(read)
            if topics.partition_counts.get(topic)
        },
        topics.partition_racks,
    )
    data = {member: member_data(subscriptions[member]) for member in in_string_order(subscriptions)}
    near = Near(topics, subscriptions)
    owned, contested = _owned(topics, subscriptions, data)
    if _all_read_the_same(subscriptions):
        even = EvenShares(topics, near, owned, contested)
        return StickyPlan(even.given(), even.moving)
    return StickyPlan(Balancing(topics, near, owned, subscriptions, _before(data)).given(), None)


def _all_read_the_same(subscriptions: Mapping[str, Subscription]) -> bool:
    return len({frozenset(subscription.topics) for subscription in subscriptions.values()}) <= 1


def _owned(
    topics: GroupTopics, subscriptions: Mapping[str, Subscription], data: Mapping[str, MemberData]
) -> tuple[Given, set[TopicPartition]]:
    """Returns the partitions of existing topics that each member owns, and those that two members claim for the same
    generation.

    Of claims in different generations the later one wins.
    """
    owned: Given = {}
    owner: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    for member, said in data.items():
        generation_id = NO_GENERATION if said.generation_id is None else said.generation_id
        owned[member] = []
        for partition in said.partitions:
            if partition.partition >= topics.partition_counts.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is None:
                owned[member].append(partition)
                owner[partition] = member
                continue
            other_generation_id = subscriptions[other].generation_id
            if generation_id == other_generation_id:
                contested.add(partition)
            elif generation_id > other_generation_id:
                owned[member].append(partition)
            else:
                continue
            if partition in owned[other]:
                owned[other].remove(partition)
            owner[partition] = member
    return owned, contested


def _before(data: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
    """The owner of each partition before the latest generation."""
    latest = max(
        (said.generation_id for said in data.values() if said.generation_id is not None), default=NO_GENERATION
    )
    latest = max(latest, NO_GENERATION)
    before: dict[TopicPartition, tuple[str, int]] = {}
    for member, said in data.items():
        generation_id = NO_GENERATION if said.generation_id is None else said.generation_id
        if generation_id >= latest:
            continue
        for partition in said.partitions:
            if partition not in before or generation_id > before[partition][1]:
                before[partition] = (member, generation_id)
    return {partition: member for partition, (member, _) in before.items()}
