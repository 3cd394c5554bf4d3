"""Consumer groups: listing them, their members and assignments; deleting them.

A group is of the classic kind (JoinGroup and SyncGroup) or of the consumer kind (KIP-848). Newer brokers also list
groups of other kinds, identified by name.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from struct import Struct as Layout

from cordwood.client.admin.coordinators import (
    CoordinatorKind,
    ask_coordinator,
    ask_coordinators,
)
from cordwood.client.admin.every_broker import ask_every_broker
from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.wire.codec import decode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages import consumer_group_describe
from cordwood.wire.messages import describe_groups as classic_describe
from cordwood.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment
from cordwood.wire.messages.delete_groups import DeleteGroupsRequest
from cordwood.wire.messages.describe_groups import DescribeGroupsRequest
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"
CONSUMER = "consumer"
"""The protocol of groups that share partitions of topics, and the kind of KIP-848 groups."""
KINDS = (CLASSIC, CONSUMER, "share", "streams")
STATES = (
    "Empty",
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
"""State names of all kinds of groups, as brokers spell them."""

_VERSION = Layout(">h")
# The first version of LeaveGroup that names several members, by instance or member id (KIP-345).
_LEAVE_FOR_OTHERS = 3


@dataclass(frozen=True, slots=True)
class GroupListing:
    id: str
    kind: str
    """CLASSIC, CONSUMER, or a newer broker's name, in lower case."""
    state: str | None
    """As brokers spell it: Stable, Empty, PreparingRebalance …; None before Kafka 2.6."""
    protocol_type: str
    """The purpose of a group: "consumer", "connect"; empty for one that only has offsets."""
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    id: str
    instance_id: str | None
    """The id of a static member."""
    client_id: str
    host: str
    """The client's address; without the slash that brokers in Java put before it."""
    assignment: tuple[TopicPartition, ...] | None
    """Sorted; None if the member is not a consumer."""
    target_assignment: tuple[TopicPartition, ...] | None = None
    """The assignment that a member of the consumer kind is moving to."""
    epoch: int | None = None
    subscription: tuple[str, ...] = ()
    subscription_regex: str | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    id: str
    kind: str
    state: str
    protocol_type: str
    assignor: str
    """Empty if there is none yet."""
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        """True if the group has, or is about to have, members: then only they may commit its offsets."""
        return bool(self.members) or self.state not in ("Empty", "Dead")


async def list_groups(
    client: Client, *, states: Collection[str] = (), kinds: Collection[str] = ()
) -> list[GroupListing]:
    """Returns the groups of all brokers by id, filtered by state and kind, if given."""

    def request(broker: BrokerConnection) -> ListGroupsRequest:
        # Brokers without version 5 know a single kind, so there is no filter to send.
        by_kind = broker.versions.best(ListGroupsRequest) >= 5
        return ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(kinds) if by_kind else [])

    def error(response: ListGroupsResponse) -> int:
        return response.error_code

    responses = await ask_every_broker(client, request, error)
    listed = [_listing(told, broker) for broker, response in responses.items() for told in response.groups]
    # Two brokers may report a group whose coordinator changes in between.
    groups = {group.id: group for group in listed if not kinds or group.kind in kinds}
    return [groups[group_id] for group_id in sorted(groups)]


async def describe_groups(client: Client, group_ids: Collection[str]) -> dict[str, GroupDescription | BrokerError]:
    """Describes groups of either kind; GROUP_ID_NOT_FOUND for a missing group, or one of another kind."""
    return await ask_coordinators(client, CoordinatorKind.GROUP, dict.fromkeys(group_ids), _describe)


async def delete_groups(client: Client, group_ids: Collection[str]) -> dict[str, BrokerError | None]:
    """Returns the result for each group; None is success. A group with members is NON_EMPTY_GROUP."""

    async def delete(
        broker_id: int, broker: BrokerConnection, asked: Mapping[str, None]
    ) -> Mapping[str, bool | BrokerError]:
        response = await broker.ask(DeleteGroupsRequest(groups_names=list(asked)))
        return {
            told.group_id: failure(told.error_code, None, f"group {told.group_id}") or True for told in response.results
        }

    results = await ask_coordinators(client, CoordinatorKind.GROUP, dict.fromkeys(group_ids), delete)
    return {group_id: result if isinstance(result, BrokerError) else None for group_id, result in results.items()}


async def remove_group_members(
    client: Client,
    group_id: str,
    *,
    instance_ids: Collection[str] = (),
    member_ids: Collection[str] = (),
    reason: str | None = None,
) -> dict[str, BrokerError | None]:
    """Removes static members by instance id, others by member id; their partitions are redistributed.

    Returns the outcome for each member; None is success. UNKNOWN_MEMBER_ID for a missing one.
    """
    members = [MemberIdentity(group_instance_id=instance_id, reason=reason) for instance_id in instance_ids]
    members += [MemberIdentity(member_id=member_id, reason=reason) for member_id in member_ids]
    request = LeaveGroupRequest(group_id=group_id, members=members)

    async def ask(broker: BrokerConnection) -> dict[str, BrokerError | None]:
        response = await broker.ask(request, at_least=_LEAVE_FOR_OTHERS)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code, subject=f"group {group_id}")
        outcomes = {}
        for told in response.members:
            name = told.member_id if told.member_id in member_ids else told.group_instance_id or told.member_id
            outcomes[name] = failure(told.error_code, None, f"member {name} of group {group_id}")
        return outcomes

    return await ask_coordinator(client, CoordinatorKind.GROUP, group_id, ask)


async def _describe(
    broker_id: int, broker: BrokerConnection, asked: Mapping[str, None]
) -> Mapping[str, GroupDescription | BrokerError]:
    described: dict[str, GroupDescription | BrokerError] = {}
    if broker.versions.has(ConsumerGroupDescribeRequest):
        for told in (await broker.ask(ConsumerGroupDescribeRequest(group_ids=list(asked)))).groups:
            described[told.group_id] = failure(
                told.error_code, told.error_message, f"group {told.group_id}"
            ) or _consumer_group(told, broker_id)
    others = [group_id for group_id in asked if _may_be_classic(described.get(group_id))]
    if others:
        for classic in (await broker.ask(DescribeGroupsRequest(groups=others))).groups:
            described[classic.group_id] = failure(
                _classic_error(classic), classic.error_message, f"group {classic.group_id}"
            ) or _classic_group(classic, broker_id)
    return described


def _may_be_classic(described: GroupDescription | BrokerError | None) -> bool:
    # A broker may know the newer protocol but have it disabled.
    return described is None or (
        isinstance(described, BrokerError)
        and described.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
    )


def _classic_error(told: classic_describe.DescribedGroup) -> int:
    """Before version 6 a missing group is reported as dead."""
    if told.error_code == ErrorCode.NONE and told.group_state == "Dead":
        return ErrorCode.GROUP_ID_NOT_FOUND
    return told.error_code


def _classic_group(told: classic_describe.DescribedGroup, coordinator: int) -> GroupDescription:
    is_consumers = told.protocol_type == CONSUMER
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            _classic_assignment(member.member_assignment) if is_consumers else None,
        )
        for member in told.members
    ]
    return GroupDescription(
        told.group_id,
        CLASSIC,
        told.group_state,
        told.protocol_type,
        told.protocol_data,
        coordinator,
        tuple(sorted(members, key=lambda member: member.id)),
    )


def _classic_assignment(data: bytes | bytearray | memoryview) -> tuple[TopicPartition, ...] | None:
    """Returns the assignment that the group's leader sent to a member; None if it is unreadable, since brokers do not
    check it."""
    if len(data) == 0:
        return ()
    if len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    # Later versions append fields.
    version = max(0, min(version, ConsumerProtocolAssignment.versions.high))
    try:
        assignment = decode(ConsumerProtocolAssignment, version, memoryview(data)[_VERSION.size :], strict=False)
    except DecodeError:
        return None
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in assignment.assigned_partitions
            for partition in topic.partitions
        )
    )


def _consumer_group(told: consumer_group_describe.DescribedGroup, coordinator: int) -> GroupDescription:
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            _assignment(member.assignment),
            _assignment(member.target_assignment),
            member.member_epoch,
            tuple(sorted(member.subscribed_topic_names)),
            member.subscribed_topic_regex or None,
            member.rack_id,
        )
        for member in told.members
    ]
    return GroupDescription(
        told.group_id,
        CONSUMER,
        told.group_state,
        CONSUMER,
        told.assignor_name,
        coordinator,
        tuple(sorted(members, key=lambda member: member.id)),
        told.group_epoch,
        told.assignment_epoch,
    )


def _assignment(told: consumer_group_describe.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in told.topic_partitions
            for partition in topic.partitions
        )
    )


def _listing(told: ListedGroup, coordinator: int) -> GroupListing:
    kind = told.group_type.lower() or CLASSIC
    return GroupListing(told.group_id, kind, told.group_state or None, told.protocol_type, coordinator)
