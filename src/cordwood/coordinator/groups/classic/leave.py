"""LeaveGroup: members leave, or an administrator removes them."""

from __future__ import annotations

import logging

from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

from .classic_group import ClassicGroup
from .effects import Effects
from .rebalance import rebalance_or_complete_join
from .sessions import remove_member, remove_pending

_log = logging.getLogger(__name__)


def leave(state: GroupState, group: ClassicGroup, leaving: list[MemberIdentity]) -> Decision[LeaveGroupResponse]:
    effects = Effects()
    responses = [_leave(state, group, identity, effects) for identity in leaving]
    left = [response.member_id or response.group_instance_id for response in responses if not response.error_code]
    if left and not group.is_empty:
        rebalance_or_complete_join(state, group, effects, f"{', '.join(map(str, left))} left")
    return effects.decision(LeaveGroupResponse(members=responses))


def _leave(state: GroupState, group: ClassicGroup, identity: MemberIdentity, effects: Effects) -> MemberResponse:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    error = ErrorCode.NONE
    if member_id in group.pending_joins:
        remove_pending(state, group, member_id)
    else:
        if not member_id and instance_id is not None:
            # Administrators identify static members by instance id only.
            member_id = group.static_members.get(instance_id, "")
        try:
            member = group.checked_member(member_id, instance_id)
        except Refusal as refusal:
            error = refusal.error
        else:
            _log.info("%s leaves %s: %s", member, group, identity.reason or "it does not say why")
            remove_member(state, group, member, effects)
    return MemberResponse(member_id=identity.member_id, group_instance_id=instance_id, error_code=error)
