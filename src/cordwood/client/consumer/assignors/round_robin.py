"""The round robin assignor: all partitions of all topics, one by one, to the members in turn."""

from collections.abc import Mapping

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    GroupTopics,
    RebalanceProtocol,
    Stateless,
    Subscription,
)
from cordwood.client.consumer.assignors.order import in_member_order


class RoundRobinAssignor(Stateless):
    name = "roundrobin"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        members = in_member_order(subscriptions)
        reads = {member: frozenset(subscriptions[member].topics) for member in members}
        given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        turn = 0
        for partition in topics.partitions(sorted(frozenset().union(*reads.values()) & topics.partition_counts.keys())):
            while partition.topic not in reads[members[turn]]:
                turn = (turn + 1) % len(members)
            given[members[turn]].append(partition)
            turn = (turn + 1) % len(members)
        return {member: Assignment(partitions) for member, partitions in given.items()}
