"""Sticky assignment among members with the same subscription: shares differ by at most one partition.

Members keep their partitions up to their share; then the rest goes to members with less, preferring near ones if racks
matter. Some members (`_larger`) may have one more than the others, depending on the remainder of the division.
"""

from collections.abc import Collection, Mapping, Sequence

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import GroupTopics
from cordwood.client.consumer.assignors.racks import Near


class EvenShares:
    def __init__(
        self,
        topics: GroupTopics,
        near: Near,
        owned: Mapping[str, Sequence[TopicPartition]],
        contested: Collection[TopicPartition],
    ) -> None:
        self.moving: dict[TopicPartition, str] = {}
        """Partitions that move from one member to another, with their new owner."""
        self._topics = topics
        self._near = near
        self._owned = owned
        self._contested = contested
        self._given: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        partition_count = sum(topics.partition_counts.values())
        self._small, self._larger_count = divmod(partition_count, len(owned))
        self._large = self._small + (self._larger_count > 0)
        self._larger = 0
        self._had: dict[TopicPartition, str] = {}
        # Members below the small share, and members at it that may still get a large one.
        self._unfilled: list[str] = []
        self._maybe_larger: list[str] = []

    def given(self) -> dict[str, list[TopicPartition]]:
        """Returns the assignment; call once."""
        self._keep()
        kept = {partition for partitions in self._given.values() for partition in partitions}
        left = [
            partition
            for partition in self._topics.partitions(sorted(self._topics.partition_counts))
            if partition not in kept
        ]
        self._unfilled.sort()
        self._maybe_larger.sort()
        left = self._near.hardest_first(left)
        if self._near.matters:
            left = self._fill_near(left)
        self._fill(left)
        return self._given

    def _keep(self) -> None:
        for member, owned in self._owned.items():
            mine = []
            for partition in owned:
                if self._near.is_far(member, partition):
                    self._had[partition] = member
                elif partition not in self._contested:
                    mine.append(partition)
            mine.sort(key=lambda partition: (partition.partition, partition.topic))
            if len(mine) < self._small:
                kept = len(mine)
                self._unfilled.append(member)
            elif len(mine) >= self._large and self._larger < self._larger_count:
                kept = self._large
                self._count_larger()
            else:
                kept = self._small
                if self._larger < self._larger_count:
                    self._maybe_larger.append(member)
            self._given[member] += mine[:kept]
            self._had |= dict.fromkeys(mine[kept:], member)

    def _fill_near(self, left: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assigns partitions to nearby members with room; returns the rest."""
        remaining = []
        turn = 0
        for partition in left:
            place = self._near.next_beside(partition, self._unfilled, turn)
            if place is not None:
                member = self._unfilled[place]
                self._give(partition, member)
                if len(self._given[member]) >= self._small:
                    del self._unfilled[place]
                    if len(self._given[member]) < self._large and self._larger < self._larger_count:
                        self._maybe_larger.append(member)
                else:
                    place += 1
                turn = place % len(self._unfilled) if self._unfilled else 0
                continue
            place = self._near.next_beside(partition, self._maybe_larger, 0)
            if place is None:
                remaining.append(partition)
                continue
            member = self._maybe_larger[place]
            self._give(partition, member)
            if len(self._given[member]) == self._large:
                del self._maybe_larger[place]
                self._count_larger()
        return remaining

    def _fill(self, left: Sequence[TopicPartition]) -> None:
        turn = 0
        for partition in left:
            if self._unfilled:
                turn %= len(self._unfilled)
                member = self._unfilled[turn]
                self._give(partition, member)
                if len(self._given[member]) == self._small:
                    del self._unfilled[turn]
                    self._maybe_larger.append(member)
                else:
                    turn += 1
            else:
                self._give(partition, self._maybe_larger.pop(0))

    def _count_larger(self) -> None:
        self._larger += 1
        if self._larger == self._larger_count:
            # No more members with a small share may get another partition.
            self._maybe_larger.clear()

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._given[member].append(partition)
        if self._had.get(partition, member) != member or partition in self._contested:
            self.moving[partition] = member
