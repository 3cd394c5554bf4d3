"""UnregisterBroker: the cluster forgets a broker that is not to come back.

It leaves every ISR and leads nothing. It is not asked whether the broker runs, which is for the caller to know: one
that does is not told, and serves no more.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.controller import brokers
from cordwood.net.api import Call, handles
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest)
async def unregister_broker(broker: Broker, request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
    return await broker.controller.decide(lambda image: brokers.unregister_broker(image, request, broker.defaults))
