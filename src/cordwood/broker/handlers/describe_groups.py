"""DescribeGroups: classic groups, their states and members.

A missing group, or one of another kind, is Dead; from version 6 on that is GROUP_ID_NOT_FOUND as well, with a message.
Version 3 has the client's permissions on request, version 4 static members.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.classic.states import ClassicState
from cordwood.coordinator.groups.classic_requests import describe_group
from cordwood.net.api import Call, handles
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_NOT_FOUND_SINCE = 6
# There are no ACLs: every group operation of Kafka's AclOperation is allowed, one bit each.
_ALL_ON_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))


@handles(DescribeGroupsRequest)
async def describe_groups(broker: Broker, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    groups = [await _describe(broker, group_id, call.version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = _ALL_ON_GROUP
    return DescribeGroupsResponse(groups=groups)


async def _describe(broker: Broker, group_id: str, version: int) -> DescribedGroup:
    try:
        return await settled(broker.groups.shard(group_id).decide(lambda state: describe_group(state, group_id)))
    except Refusal as refusal:
        if refusal.error != ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=coordinator_error(refusal.error))
        dead = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if version >= _NOT_FOUND_SINCE:
            dead.error_code, dead.error_message = ErrorCode.GROUP_ID_NOT_FOUND, str(refusal)
        return dead
