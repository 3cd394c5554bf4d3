"""ElectLeaders: the preferred leader of partitions, or a leader that may lack records where there is none.

Without a list it is about every partition, and those that have their leader already are left out of the answer. What is
not committed within the timeout is answered with REQUEST_TIMED_OUT, and may still come to be.
Version 0 can only ask for preferred leaders, and has no error for the whole.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.deadline import decide_within
from cordwood.metadata.controller import elections
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_WHOLE_ERROR_SINCE = 1


@handles(ElectLeadersRequest)
async def elect_leaders(broker: Broker, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    response = await decide_within(
        request.timeout_ms,
        broker.controller,
        lambda image: elections.elect_leaders(image, request, broker.defaults),
    )
    if response is None:
        response = elections.refuse_all(request, ErrorCode.REQUEST_TIMED_OUT, None)
        if call.version < _WHOLE_ERROR_SINCE:
            response.error_code = ErrorCode.NONE
    return response
