"""UnregisterBroker: removes a broker for good.

It leaves every ISR and leads nothing. The controller does not check whether the broker is running: a running one is not
notified, and stops serving.
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
