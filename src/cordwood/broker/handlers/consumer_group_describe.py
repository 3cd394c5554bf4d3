"""ConsumerGroupDescribe: consumer groups, their epochs, and their members' current and target assignments.

A missing group, or one of another kind, is GROUP_ID_NOT_FOUND. Version 1 has each member's protocol.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.consumer.describe import describe
from cordwood.coordinator.groups.consumer.settings import is_protocol_enabled
from cordwood.net.api import Call, handles
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

# There are no ACLs: every group operation of Kafka's AclOperation is allowed, one bit each.
_ALL_ON_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))


@handles(ConsumerGroupDescribeRequest)
async def consumer_group_describe(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    if not is_protocol_enabled(broker.config, broker.image):
        unsupported = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupDescribeResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=unsupported) for group_id in request.group_ids]
        )
    groups = [await _describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = _ALL_ON_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(broker: Broker, group_id: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        return await settled(broker.groups.shard(group_id).decide(lambda state: describe(state, group_id)))
    except Refusal as refusal:
        error = coordinator_error(refusal.error)
        message = str(refusal) if error == ErrorCode.GROUP_ID_NOT_FOUND else None
        return DescribedGroup(group_id=group_id, error_code=error, error_message=message)
