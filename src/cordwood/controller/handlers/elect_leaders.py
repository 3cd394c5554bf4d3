"""ElectLeaders: the preferred leader of partitions, or a leader that may lack records where there is none.

Without a list it is about every partition, and those that have their leader already are left out of the answer. What is
not committed within the timeout is answered with REQUEST_TIMED_OUT, and may still come to be.
Version 0 can only ask for preferred leaders, and has no error for the whole.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import elections
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


@handles(ElectLeadersRequest)
async def elect_leaders(
    controller: Controller, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    return await controller.decide_within(
        request.timeout_ms, lambda image: elections.elect_leaders(image, request, controller.defaults)
    )
