"""Heartbeat: a member is alive, and is told when it has to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

from .group import ClassicGroup
from .sessions import renew_session
from .states import ClassicState

if TYPE_CHECKING:
    from cordwood.coordinator.groups.state import GroupState


def heartbeat(state: GroupState, group: ClassicGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    member = group.checked_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"{group} is at generation {group.generation}")
    renew_session(state, member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return Decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return Decision(HeartbeatResponse())


def quiet_beat(state: GroupState, request: HeartbeatRequest) -> bool:
    """`heartbeat` for a member that has nothing to be told, which it renews the session of; False for any other."""
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
    renew_session(state, member)
    return True
