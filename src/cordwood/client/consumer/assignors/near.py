"""Rack proximity of members and partitions, used if racks matter (KIP-881)."""

from collections.abc import Mapping, Sequence

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import GroupTopics, Subscription
from cordwood.client.consumer.assignors.racks import member_racks, racks_matter


class Near:
    def __init__(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> None:
        racks = member_racks(subscriptions)
        partition_racks: dict[TopicPartition, frozenset[str]] = {}
        if racks:
            for partition in topics.partitions(topics.partition_counts):
                partition_racks[partition] = topics.partition_racks.get(partition, frozenset())
        # Number of near members, known even if racks don't matter.
        members = list(racks.values())
        self._near_counts = {
            partition: sum(members.count(rack) for rack in racks_of) for partition, racks_of in partition_racks.items()
        }
        self.matters = racks_matter(racks.values(), partition_racks)
        self._member_racks = racks if self.matters else {}
        self._partition_racks = partition_racks if self.matters else {}

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """False for a member without a rack."""
        rack = self._member_racks.get(member)
        return rack is not None and rack not in self._partition_racks.get(partition, ())

    def is_beside(self, member: str, partition: TopicPartition) -> bool:
        """True if the member's rack has a replica of the partition."""
        rack = self._member_racks.get(member)
        return rack is not None and rack in self._partition_racks.get(partition, ())

    def hardest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sorts by the number of near members."""
        return sorted(partitions, key=lambda partition: self._near_counts.get(partition, 0))

    def next_beside(self, partition: TopicPartition, members: Sequence[str], start: int) -> int | None:
        """Returns the index of the next near member, from `start` on."""
        for step in range(len(members)):
            place = (start + step) % len(members)
            if self.is_beside(members[place], partition):
                return place
        return None
