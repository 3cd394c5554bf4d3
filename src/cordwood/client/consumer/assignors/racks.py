"""Decides whether racks matter to an assignment (KIP-881)."""

from collections.abc import Collection, Mapping

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import Subscription


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Returns the racks of the members that have one."""
    return {member: subscription.rack_id for member, subscription in subscriptions.items() if subscription.rack_id}


def racks_matter(members_racks: Collection[str], partition_racks: Mapping[TopicPartition, frozenset[str]]) -> bool:
    """False if no member is near any replica, or if every partition is in all racks."""
    all_racks = frozenset().union(*partition_racks.values())
    if all_racks.isdisjoint(members_racks):
        return False
    return any(racks != all_racks for racks in partition_racks.values())
