"""The range assignor: each topic's partitions, in runs of equal length, to the members in order.

Topics with the same keys and partition counts end up on the same members. With racks (KIP-881) each member first gets
partitions with a replica in its rack, within the same bounds, and topics with the same members and size stay together.
"""

from collections.abc import Callable, Mapping, Sequence

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    GroupTopics,
    RebalanceProtocol,
    Stateless,
    Subscription,
)
from cordwood.client.consumer.assignors.order import in_member_order, in_string_order
from cordwood.client.consumer.assignors.racks import member_racks, racks_matter

Given = dict[str, list[TopicPartition]]


class RangeAssignor(Stateless):
    name = "range"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        racks = member_racks(subscriptions)
        readers: dict[str, list[str]] = {}
        for member in in_member_order(subscriptions):
            for topic in dict.fromkeys(subscriptions[member].topics):
                readers.setdefault(topic, []).append(member)
        shares = [
            _TopicShares(topic, topics, readers[topic], racks)
            for topic in in_string_order([topic for topic in readers if topics.partition_counts.get(topic)])
        ]
        given: Given = {member: [] for member in subscriptions}
        near_first = any(share.racks_matter for share in shares)
        if near_first:
            _give_near(shares, given)
        for share in shares:
            share.give_runs(given)
        if near_first:
            for partitions in given.values():
                partitions.sort()
        return {member: Assignment(partitions) for member, partitions in given.items()}


class _TopicShares:
    """One topic: its subscribers, the unassigned partitions, and how many each member may still get."""

    def __init__(self, topic: str, topics: GroupTopics, readers: Sequence[str], racks: Mapping[str, str]) -> None:
        self.topic = topic
        self.readers = readers
        self._racks = {reader: racks[reader] for reader in readers if reader in racks}
        self._left = dict.fromkeys(topics.partitions([topic]))
        self.partition_count = len(self._left)
        self._partition_racks = (
            {partition: topics.partition_racks.get(partition, frozenset()) for partition in self._left}
            if self._racks
            else {}
        )
        self.racks_matter = racks_matter(self._racks.values(), self._partition_racks)
        self._share, self._one_more = divmod(self.partition_count, len(readers))
        self._counts = dict.fromkeys(readers, 0)

    @property
    def readers_have_racks(self) -> bool:
        return bool(self._racks)

    def room(self, reader: str) -> int:
        return max(0, self._share + (self._one_more > 0) - self._counts[reader])

    def is_near(self, reader: str, partition: TopicPartition) -> bool:
        """True for a member without a rack."""
        rack = self._racks.get(reader)
        return rack is None or rack in self._partition_racks.get(partition, ())

    def give_runs(
        self, given: Given, may: Callable[[str, TopicPartition], bool] = lambda reader, partition: True
    ) -> None:
        for reader in self.readers:
            if not self._left:
                return
            run = [partition for partition in self._left if may(reader, partition)][: self.room(reader)]
            if run:
                self.give(reader, run, given)

    def give(self, reader: str, partitions: Sequence[TopicPartition], given: Given) -> None:
        given[reader].extend(partitions)
        self._counts[reader] += len(partitions)
        if self._counts[reader] > self._share:
            self._one_more -= 1
        for partition in partitions:
            del self._left[partition]


def _give_near(shares: Sequence[_TopicShares], given: Given) -> None:
    together: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = {}
    for share in shares:
        if share.readers_have_racks:
            together.setdefault((tuple(share.readers), share.partition_count), []).append(share)
    for (readers, partition_count), alike in together.items():
        if len(alike) > 1:
            _give_near_together(readers, partition_count, alike, given)
        elif alike[0].racks_matter:
            alike[0].give_runs(given, alike[0].is_near)


def _give_near_together(
    readers: Sequence[str], partition_count: int, alike: Sequence[_TopicShares], given: Given
) -> None:
    """Assigns the partitions with the same number of all these topics to one member near all of them."""
    for index in range(partition_count):
        for reader in readers:
            if all(
                share.room(reader) > 0 and share.is_near(reader, TopicPartition(share.topic, index)) for share in alike
            ):
                for share in alike:
                    share.give(reader, [TopicPartition(share.topic, index)], given)
                break
