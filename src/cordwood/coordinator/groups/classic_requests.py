"""Routes requests of the classic protocol by the kind of group.

Consumer groups have members that speak it as well, during the migration from one protocol to the other.
"""

from __future__ import annotations

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.consumer.consumer_group import ConsumerGroup
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

from .classic.heartbeat import heartbeat as heartbeat_in_classic
from .classic.join import Joining, join
from .classic.leave import leave
from .classic.states import ClassicState
from .classic.sync import sync
from .consumer import classic_members
from .state import GroupState


def join_group(state: GroupState, joining: Joining) -> Decision[JoinGroupResponse]:
    group = state.groups.get(joining.request.group_id)
    if group is None or isinstance(group, ClassicGroup):
        return join(state, joining)
    if group.is_empty:
        return join(state, joining, group.tombstones())
    if isinstance(group, ConsumerGroup):
        return classic_members.join(state, group, joining)
    raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{group.group_id} is a group of another protocol")


def sync_group(state: GroupState, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(state, group, request)
    return sync(state, _group(state, request.group_id), request)


def heartbeat(state: GroupState, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(state, group, request)
    return heartbeat_in_classic(state, _group(state, request.group_id), request)


def leave_group(state: GroupState, group_id: str, leaving: list[MemberIdentity]) -> Decision[LeaveGroupResponse]:
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.leave(state, group, leaving)
    return leave(state, _group(state, group_id), leaving)


def describe_group(state: GroupState, group_id: str) -> Decision[DescribedGroup]:
    group = state.groups.get(group_id)
    if group is None:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    return Decision(_describe(group))


def _describe(group: ClassicGroup) -> DescribedGroup:
    """Includes the members' protocol only while it is valid."""
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def _group(state: GroupState, group_id: str) -> ClassicGroup:
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id} of the classic protocol")
    return group
