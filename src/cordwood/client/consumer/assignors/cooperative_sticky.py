"""The cooperative sticky assignor: like sticky, but members keep their partitions while they join (KIP-429).

A partition that moves is unassigned at first: its owner revokes it and rejoins, and then it is free. Members before
version 2 of the subscription report their generation in the user data.
"""

from collections.abc import Mapping
from struct import Struct

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    GroupTopics,
    RebalanceProtocol,
    Subscription,
)
from cordwood.client.consumer.assignors.sticky_plan import Given, MemberData, plan
from cordwood.client.consumer.group_metadata import GroupMetadata

_USER_DATA = Struct(">i")


class CooperativeStickyAssignor:
    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation_id = NO_GENERATION

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return _USER_DATA.pack(self._generation_id)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        planned = plan(topics, subscriptions, _member_data)
        moving = planned.moving if planned.moving is not None else _moving(planned.given, subscriptions)
        return {
            member: Assignment([partition for partition in partitions if moving.get(partition) != member])
            for member, partitions in planned.given.items()
        }

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        self._generation_id = metadata.generation_id


def _member_data(subscription: Subscription) -> MemberData:
    owned = subscription.owned_partitions
    if subscription.generation_id >= 0:
        return MemberData(owned, subscription.generation_id)
    if subscription.user_data is None:
        return MemberData(owned, None)
    if len(subscription.user_data) < _USER_DATA.size:
        return MemberData(owned, NO_GENERATION)
    return MemberData(owned, _USER_DATA.unpack_from(subscription.user_data)[0])


def _moving(given: Given, subscriptions: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """The partitions assigned to one member while another still owns them."""
    added: dict[TopicPartition, str] = {}
    taken: set[TopicPartition] = set()
    for member, partitions in given.items():
        owned = frozenset(subscriptions[member].owned_partitions)
        added |= {partition: member for partition in partitions if partition not in owned}
        taken |= owned.difference(partitions)
    return {partition: member for partition, member in added.items() if partition in taken}
