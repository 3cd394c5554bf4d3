"""UnregisterBroker: the cluster forgets a broker that is not to come back.

It leaves every ISR and leads nothing. It is not asked whether the broker runs, which is for the caller to know: one
that does is not told, and serves no more.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest)
async def unregister_broker(
    controller: Controller, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    return await controller.decide_on_members(lambda members, image: members.unregister(image, request))
