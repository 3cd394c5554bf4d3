"""Heartbeat: keeps a member's session alive, and tells the member when to rejoin."""

from __future__ import annotations

from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

from .classic_group import ClassicGroup
from .states import ClassicState


def heartbeat(state: GroupState, group: ClassicGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    member = group.checked_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"{group} is at generation {group.generation}")
    member.renew_session(state.timers)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return Decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return Decision(HeartbeatResponse())


def quiet_beat(state: GroupState, request: HeartbeatRequest) -> bool:
    """Fast path of `heartbeat`: renews the session if there is nothing to report; otherwise returns False."""
    group = state.groups.get(request.group_id)
    if (
        not isinstance(group, ClassicGroup)
        or request.generation_id != group.generation
        or group.state is ClassicState.PREPARING_REBALANCE
    ):
        return False
    member = group.members.get(request.member_id)
    if member is None or (
        request.group_instance_id is not None
        and group.static_members.get(request.group_instance_id) != request.member_id
    ):
        return False
    member.renew_session(state.timers)
    return True
