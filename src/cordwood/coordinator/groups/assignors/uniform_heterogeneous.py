"""The uniform assignor where members subscribe to different topics.

Members keep their partitions; unowned ones go, topic by topic, to the least loaded subscribers. Then, topic by topic,
partitions move from the most loaded to the least loaded members until no move improves the balance. Overlapping
subscriptions may need many rounds, so their number is limited.
"""

from __future__ import annotations

from collections import defaultdict

from cordwood.coordinator.groups.assignors.java_order import in_member_order, uuid_rank
from cordwood.coordinator.groups.assignors.member_loads import MemberLoads
from cordwood.coordinator.groups.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberPartitions,
    TopicDescriber,
    known_partition_count,
)
from cordwood.wire.primitives import Uuid

MAX_BALANCING_ROUNDS = 16
NOBODY = -1


def assign_heterogeneous(spec: GroupSpec, topics: TopicDescriber) -> Assignment:
    balancing = _Balancing(spec, topics)
    balancing.keep_what_members_have()
    balancing.give_away_what_nobody_has()
    balancing.even_out()
    return balancing.assignment()


class _Balancing:
    """An assignment under construction. Members are numbered in Java's order, which breaks ties."""

    def __init__(self, spec: GroupSpec, topics: TopicDescriber) -> None:
        self._spec = spec
        self._member_ids = in_member_order(spec.members)
        self._loads = [0] * len(self._member_ids)
        """Partitions per member, over all topics."""
        self._subscribers: dict[Uuid, list[int]] = {}
        for number, member_id in enumerate(self._member_ids):
            for topic_id in spec.members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners: dict[Uuid, list[int]] = {
            topic_id: [NOBODY] * known_partition_count(topics, topic_id)
            for topic_id in sorted(self._subscribers, key=lambda topic_id: self._rank(topics, topic_id))
        }
        """The owner of each partition. Topics are in processing order."""

    def _rank(self, topics: TopicDescriber, topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
        """Orders topics with the most partitions per subscriber first, while there is still room to compensate
        elsewhere."""
        subscriber_count = len(self._subscribers[topic_id])
        per_subscriber = known_partition_count(topics, topic_id) / subscriber_count
        return -per_subscriber, subscriber_count, uuid_rank(topic_id)

    def keep_what_members_have(self) -> None:
        for number, member_id in enumerate(self._member_ids):
            member = self._spec.members[member_id]
            for topic_id, partitions in member.assigned.items():
                if topic_id in member.topic_ids:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = number
                    self._loads[number] += len(partitions)

    def give_away_what_nobody_has(self) -> None:
        for topic_id, owners in self._owners.items():
            if NOBODY not in owners:
                continue
            members = MemberLoads(self._subscribers[topic_id], self._loads)
            for partition, owner in enumerate(owners):
                if owner == NOBODY:
                    new_owner = members.next_least_loaded()
                    owners[partition] = new_owner
                    self._loads[new_owner] += 1

    def even_out(self) -> None:
        topic_ids = [topic_id for topic_id in self._owners if len(self._subscribers[topic_id]) > 1]
        # Done when every other topic stayed unchanged since the last move; initially the first topic counts as moved.
        others_unchanged = -1
        for _ in range(MAX_BALANCING_ROUNDS):
            for topic_id in topic_ids:
                others_unchanged = 0 if self._even_out_topic(topic_id) else others_unchanged + 1
                if others_unchanged == len(topic_ids) - 1:
                    return

    def _even_out_topic(self, topic_id: Uuid) -> bool:
        """Returns whether a partition of the topic was moved."""
        members = MemberLoads(self._subscribers[topic_id], self._loads)
        if members.spread() <= 1:
            return False
        owners = self._owners[topic_id]
        held: dict[int, list[int]] = defaultdict(list)
        for partition, owner in enumerate(owners):
            held[owner].append(partition)
        moved = False
        while True:
            giver = members.next_most_loaded()
            while giver is not None and not held[giver]:
                members.pass_over_most_loaded()
                giver = members.next_most_loaded()
            if giver is None:
                return moved
            taker = members.next_least_loaded()
            if members.are_even():
                return moved
            owners[held[giver].pop()] = taker
            self._loads[giver] -= 1
            self._loads[taker] += 1
            moved = True

    def assignment(self) -> Assignment:
        shares: list[dict[Uuid, list[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                shares[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: _share(self._spec.members[member_id].assigned, share)
            for member_id, share in zip(self._member_ids, shares, strict=True)
        }


def _share(assigned: MemberPartitions, share: dict[Uuid, list[int]]) -> MemberPartitions:
    new = {topic_id: frozenset(partitions) for topic_id, partitions in share.items()}
    return assigned if new == assigned else new
