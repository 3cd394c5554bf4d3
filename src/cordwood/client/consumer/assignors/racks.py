"""Racks of members and partitions: their effect on an assignment, and the members near a partition (KIP-881)."""

from collections.abc import Collection, Mapping, Sequence

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import GroupTopics, Subscription


class Near:
    """Which members are near which partitions, if racks matter."""

    def __init__(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> None:
        racks = member_racks(subscriptions)
        partition_racks: dict[TopicPartition, frozenset[str]] = {}
        if racks:
            for partition in topics.partitions(topics.partition_counts):
                partition_racks[partition] = topics.partition_racks.get(partition, frozenset())
        # How many members are near, which is known even where it does not matter.
        members = list(racks.values())
        self._near_counts = {
            partition: sum(members.count(rack) for rack in racks_of) for partition, racks_of in partition_racks.items()
        }
        self.matters = racks_matter(racks.values(), partition_racks)
        self._member_racks = racks if self.matters else {}
        self._partition_racks = partition_racks if self.matters else {}

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """A member without a rack is far from nothing."""
        rack = self._member_racks.get(member)
        return rack is not None and rack not in self._partition_racks.get(partition, ())

    def is_beside(self, member: str, partition: TopicPartition) -> bool:
        """It has a rack, and the partition a replica there."""
        rack = self._member_racks.get(member)
        return rack is not None and rack in self._partition_racks.get(partition, ())

    def hardest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sorts by the number of members nearby, fewest first."""
        return sorted(partitions, key=lambda partition: self._near_counts.get(partition, 0))

    def next_beside(self, partition: TopicPartition, members: Sequence[str], start: int) -> int | None:
        """The place of the first in turn, from `start` on."""
        for step in range(len(members)):
            place = (start + step) % len(members)
            if self.is_beside(members[place], partition):
                return place
        return None


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Returns the racks of the members that have one."""
    return {member: subscription.rack_id for member, subscription in subscriptions.items() if subscription.rack_id}


def racks_matter(members_racks: Collection[str], partition_racks: Mapping[TopicPartition, frozenset[str]]) -> bool:
    """False if no member is near any replica, or if every partition is in all racks."""
    all_racks = frozenset().union(*partition_racks.values())
    if all_racks.isdisjoint(members_racks):
        return False
    return any(racks != all_racks for racks in partition_racks.values())
