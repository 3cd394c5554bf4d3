"""Orders a group's members: static ones by instance id, then the others by member id (KIP-345)."""

from collections.abc import Mapping

from cordwood.client.consumer.assignors.assignor import Subscription


def in_member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    def rank(member: str) -> tuple[bool, str]:
        instance_id = subscriptions[member].group_instance_id
        return (instance_id is None, member if instance_id is None else instance_id)

    return sorted(subscriptions, key=rank)
