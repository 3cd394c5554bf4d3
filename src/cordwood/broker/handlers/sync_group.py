"""SyncGroup: a member of a classic group asks for its assignment; the leader's request contains those of all members.

The response is sent when the leader's assignment is in the log. Version 3 adds static members; from version 5 on
members must state the group's protocol type and protocol.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.classic_requests import sync_group as decide
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE = 5


@handles(SyncGroupRequest)
def sync_group(broker: Broker, request: SyncGroupRequest, call: Call) -> Result:
    if call.version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID, "")
    return ask(call, broker.groups, request.group_id, lambda state: decide(state, request), _refused, holds=True)


def _refused(error: ErrorCode, _message: str) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
