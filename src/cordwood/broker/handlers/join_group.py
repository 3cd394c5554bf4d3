"""JoinGroup: a client joins a classic group, or its next generation.

The response is sent when all members have joined: with the generation, the chosen protocol and the leader, which also
gets all members with their subscriptions.

Version 1 adds a rebalance timeout (before, the session timeout is used), version 4 the member id that is assigned first
(KIP-394), version 5 static members (KIP-345), version 7 the protocol type in the response, version 8 the client's
reason, version 9 leaders that skip the assignment (KIP-814).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask
from cordwood.coordinator.groups.classic.join import Joining
from cordwood.coordinator.groups.classic.member import refused_join
from cordwood.coordinator.groups.classic_requests import join_group as decide
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


@handles(JoinGroupRequest)
def join_group(broker: Broker, request: JoinGroupRequest, call: Call) -> Result:
    def refused(error: ErrorCode, _message: str) -> JoinGroupResponse:
        return refused_join(error, call.version, request.member_id)

    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID, "")
    least_ms, most_ms = (broker.config.integer(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
    if not least_ms <= request.session_timeout_ms <= most_ms:
        return refused(ErrorCode.INVALID_SESSION_TIMEOUT, "")
    joining = Joining(
        request,
        call.version,
        call.client_id,
        # Java's format for an address without a name.
        f"/{call.connection.peer.host}",
        tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
    )
    # Kafka processes one request of a connection at a time, and clients rely on that: librdkafka sends LeaveGroup right
    # after its own join, and its response must not be UNKNOWN_MEMBER_ID.
    return ask(call, broker.groups, request.group_id, lambda state: decide(state, joining), refused, holds=True)
