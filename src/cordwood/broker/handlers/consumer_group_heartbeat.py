"""ConsumerGroupHeartbeat: a member of a consumer group joins, continues, or leaves (KIP-848).

Epoch 0 joins, -1 leaves, -2 leaves temporarily (static members). A member reports changes, and gets its epoch, and its
assignment if that has changed or if the request was complete.

Version 1 adds subscriptions by regular expression, and members generate their own ids (KIP-1082).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.consumer.heartbeat import check_request, heartbeat
from cordwood.coordinator.groups.consumer.settings import is_protocol_enabled
from cordwood.net.api import Call, Result, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call) -> Result:
    if not is_protocol_enabled(broker.config, broker.image):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        check_request(request, call.version, broker.config)
    except Refusal as refusal:
        return _refused(refusal.error, str(refusal))
    # Java's format for an address without a name.
    client_id, client_host = call.client_id, f"/{call.connection.peer.host}"
    return ask(
        call,
        broker.groups,
        request.group_id,
        lambda state: heartbeat(state, request, client_id, client_host),
        _refused,
    )


def _refused(error: ErrorCode, message: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message or None)
