"""Heartbeat: keeps a member of a classic group alive; REBALANCE_IN_PROGRESS tells it to rejoin.

Version 3 adds static members.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.classic_requests import heartbeat as decide
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest)
def heartbeat(broker: Broker, request: HeartbeatRequest, call: Call) -> Result:
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID, "")
    return ask(call, broker.groups, request.group_id, lambda state: decide(state, request), _refused, _error_of)


def _refused(error: ErrorCode, _message: str) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def _error_of(error: ErrorCode) -> ErrorCode:
    # Sessions restart when the group is loaded: until then every member counts as alive.
    return ErrorCode.NONE if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else coordinator_error(error)
