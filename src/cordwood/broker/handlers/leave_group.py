"""LeaveGroup: members leave a classic group.

Up to version 2 one member leaves by its id, and its error is the request's. From version 3 on several can leave, each
with its own error; an administrator identifies static members by group.instance.id without a member id. Version 5 has a
reason for each.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.classic_requests import leave_group as decide
from cordwood.coordinator.groups.state import GroupState
from cordwood.net.api import Call, Result, handles
from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

_SEVERAL_SINCE = 3


@handles(LeaveGroupRequest)
def leave_group(broker: Broker, request: LeaveGroupRequest, call: Call) -> Result:
    leaves_alone = call.version < _SEVERAL_SINCE
    leaving = [MemberIdentity(member_id=request.member_id)] if leaves_alone else request.members

    def refused(error: ErrorCode, _message: str) -> LeaveGroupResponse:
        if error != ErrorCode.UNKNOWN_MEMBER_ID or leaves_alone:
            return LeaveGroupResponse(error_code=error)
        # A missing group has no members.
        return LeaveGroupResponse(members=[_refused_member(identity, error) for identity in leaving])

    def decision(state: GroupState) -> Decision[LeaveGroupResponse]:
        decided = decide(state, request.group_id, leaving)
        response = decided.response
        if leaves_alone and isinstance(response, LeaveGroupResponse):
            response.error_code, response.members = response.members[0].error_code, []
        return decided

    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID, "")
    return ask(call, broker.groups, request.group_id, decision, refused)


def _refused_member(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
