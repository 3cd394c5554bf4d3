"""Sticky assignment among members with different subscriptions: moves partitions until no move improves the balance.

Members keep their partitions where possible, unowned ones go to the member with the fewest, and then partitions move
one by one from a member to one with at least two fewer. If a partition moves from one member to another while another
partition of the same topic moves back, both moves are useless: `Moves` avoids that.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import GroupTopics, Subscription
from cordwood.client.consumer.assignors.moves import Moves
from cordwood.client.consumer.assignors.racks import Near

# Sorted, with fast look-ups.
Share = dict[TopicPartition, None]


class Balancing:
    def __init__(
        self,
        topics: GroupTopics,
        near: Near,
        owned: Mapping[str, Sequence[TopicPartition]],
        subscriptions: Mapping[str, Subscription],
        before: Mapping[TopicPartition, str],
    ) -> None:
        self._near = near
        self._before = before
        self._counts = topics.partition_counts
        self._reads = {
            member: [topic for topic in dict.fromkeys(subscriptions[member].topics) if topic in topics.partition_counts]
            for member in owned
        }
        self._readers: dict[str, list[str]] = {topic: [] for topic in topics.partition_counts}
        for member, read in self._reads.items():
            for topic in read:
                self._readers[topic].append(member)
        # Partitions with the fewest subscribers first: they are the hardest to place.
        self._all = topics.partitions(sorted(self._readers, key=lambda topic: (len(self._readers[topic]), topic)))
        self._must_revoke = False
        self._shares = _Shares({member: self._kept(member, partitions) for member, partitions in owned.items()})
        self._moves = Moves()

    def given(self) -> dict[str, list[TopicPartition]]:
        """Returns the assignment; call once."""
        starts_empty = self._shares.largest() == 0
        left = [partition for partition in self._all if partition not in self._shares.owner]
        unplaced = left
        if self._near.matters:
            unplaced = [partition for partition in left if not self._place(partition, near_only=True)]
        for partition in unplaced:
            self._place(partition)

        self._shares.set_aside(member for member in self._reads if not self._may_change(member))
        before = self._shares.copy()
        if not self._must_revoke:
            self._improve([partition for partition in left if self._is_shared(partition.topic)])
        improved = self._improve([partition for partition in self._all if self._is_shared(partition.topic)])
        if improved and not starts_empty and self._shares.unevenness() >= before.unevenness():
            self._shares = before
        return self._shares.all()

    def _kept(self, member: str, partitions: Iterable[TopicPartition]) -> Share:
        kept: Share = {}
        for partition in partitions:
            if partition.topic not in self._reads[member] or self._near.is_far(member, partition):
                self._must_revoke = True
            else:
                kept[partition] = None
        return kept

    def _place(self, partition: TopicPartition, near_only: bool = False) -> bool:
        """Assigns the partition to the member with the fewest."""
        for member in self._shares.smallest_first():
            if partition.topic in self._reads[member] and not (near_only and self._near.is_far(member, partition)):
                self._shares.add(member, partition)
                return True
        return False

    def _is_shared(self, topic: str) -> bool:
        return len(self._readers[topic]) > 1

    def _may_change(self, member: str) -> bool:
        share = self._shares.of[member]
        return len(share) < self._most(member) or any(self._is_shared(partition.topic) for partition in share)

    def _most(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._reads[member])

    def _improve(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves partitions until the balance is optimal; returns whether anything moved."""
        improved = False
        goes_on = True
        while goes_on:
            goes_on = False
            for partition in partitions:
                if self._is_even():
                    break
                if (to := self._better(partition)) is not None:
                    self._move(partition, to)
                    improved = goes_on = True
        return improved

    def _is_even(self) -> bool:
        """True if no member has two fewer partitions than another that has one it could take."""
        shares = self._shares
        if shares.largest() - shares.smallest() <= 1:
            return True
        for member in shares.smallest_first():
            count = len(shares.of[member])
            if count == self._most(member):
                continue
            for topic in self._reads[member]:
                for index in range(self._counts[topic]):
                    owner = shares.owner.get(TopicPartition(topic, index), member)
                    if owner in shares.of and count + 1 < len(shares.of[owner]):
                        return False
        return True

    def _better(self, partition: TopicPartition) -> str | None:
        """The member that should have it instead: its previous owner, or the one with the fewest partitions."""
        shares = self._shares
        member = shares.owner[partition]
        enough = len(shares.of[member]) - 1
        before = self._before.get(partition)
        if before in shares.of and partition.topic in self._reads[before] and enough > len(shares.of[before]):
            return before
        if any(enough > len(shares.of[other]) for other in self._readers[partition.topic] if other in shares.of):
            return next(other for other in shares.smallest_first() if partition.topic in self._reads[other])
        return None

    def _move(self, partition: TopicPartition, to: str) -> None:
        moved = self._moves.instead(partition, self._shares.owner[partition], to)
        source = self._shares.owner[moved]
        self._moves.note(moved, source, to)
        self._shares.remove(source, moved)
        self._shares.add(to, moved)


class _Shares:
    """Partitions by member, smallest share first; fixed members are separate."""

    def __init__(self, of: dict[str, Share]) -> None:
        self.of = of
        self.owner = {partition: member for member, share in of.items() for partition in share}
        self._aside: dict[str, Share] = {}
        self._order = sorted((len(share), member) for member, share in of.items())

    def copy(self) -> "_Shares":
        copy = _Shares({member: dict(share) for member, share in self.of.items()})
        copy._aside = dict(self._aside)
        return copy

    def all(self) -> dict[str, list[TopicPartition]]:
        return {member: list(share) for member, share in (self.of | self._aside).items()}

    def set_aside(self, members: Iterable[str]) -> None:
        for member in list(members):
            self._aside[member] = self.of.pop(member)
        self._order = [(count, member) for count, member in self._order if member in self.of]

    def smallest_first(self) -> Iterator[str]:
        return (member for _, member in self._order)

    def smallest(self) -> int:
        return self._order[0][0] if self._order else 0

    def largest(self) -> int:
        return self._order[-1][0] if self._order else 0

    def unevenness(self) -> int:
        """The sum of the differences between all pairs."""
        counts = sorted(len(share) for share in self.of.values())
        return sum(count * (2 * place - len(counts) + 1) for place, count in enumerate(counts))

    def add(self, member: str, partition: TopicPartition) -> None:
        self._forget_place(member)
        self.of[member][partition] = None
        self.owner[partition] = member
        insort(self._order, (len(self.of[member]), member))

    def remove(self, member: str, partition: TopicPartition) -> None:
        self._forget_place(member)
        del self.of[member][partition]
        insort(self._order, (len(self.of[member]), member))

    def _forget_place(self, member: str) -> None:
        del self._order[bisect_left(self._order, (len(self.of[member]), member))]
