"""ElectLeaders: preferred elections, or unclean ones for partitions without a leader.

A null list means every partition, and the response omits those that need no election. A change that isn't committed
within the timeout gets REQUEST_TIMED_OUT, and may still be committed later. Version 0 can only ask for preferred
leaders, and has no top-level error.
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
