"""Decides whether racks matter to an assignment (KIP-881)."""

from collections.abc import Collection, Mapping

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import Subscription


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Of those that have one."""
    return {member: subscription.rack_id for member, subscription in subscriptions.items() if subscription.rack_id}


def racks_matter(members_racks: Collection[str], partition_racks: Mapping[TopicPartition, frozenset[str]]) -> bool:
    """Not when no member is near any replica, nor when every partition is in all racks anyway."""
    all_racks = frozenset().union(*partition_racks.values())
    if all_racks.isdisjoint(members_racks):
        return False
    return any(racks != all_racks for racks in partition_racks.values())
