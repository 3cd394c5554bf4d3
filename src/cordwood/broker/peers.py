"""Connections to the other brokers of the cluster; a request to this broker itself needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cordwood.metadata.image import MetadataImage
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.wire.schema import Request, ResponseT

# A role's own handler of a request: returns the response, or an awaitable of it.
Answer = Callable[[Any], Any]


class BrokerPeers:
    """Peers by broker id, at the addresses that the metadata has for a listener. A fenced broker has no peer: requests
    to it fail at once, including those in flight. `own` has the handlers of this broker, by its id and API key."""

    def __init__(
        self,
        network: Network,
        settings: ConnectionSettings,
        random: Random,
        listener: str,
        own: tuple[int, Mapping[int, Answer]] | None = None,
    ) -> None:
        self._network = network
        self._settings = settings
        self._random = random
        self._listener = listener
        self._own = own
        self._image = MetadataImage()
        self._peers: dict[int, Peer] = {}

    def apply(self, image: MetadataImage) -> None:
        """Updates the brokers' addresses."""
        if image.brokers is not self._image.brokers:
            for broker_id, peer in self._peers.items():
                peer.move(_address(image, broker_id, self._listener))
        self._image = image

    def send(self, broker_id: int, request: Request[ResponseT]) -> ResponseT | Awaitable[ResponseT]:
        """Sends a request to any broker. This one answers without a connection, at once if its handler can."""
        if self._own is not None and broker_id == self._own[0]:
            response: ResponseT | Awaitable[ResponseT] = self._own[1][type(request).api_key](request)
            return response
        return self.to(broker_id).send(request)

    def to(self, broker_id: int) -> Peer:
        peer = self._peers.get(broker_id)
        if peer is None:
            address = _address(self._image, broker_id, self._listener)
            peer = self._peers[broker_id] = Peer(self._network, self._settings, self._random, address)
        return peer

    async def close(self) -> None:
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))


def _address(image: MetadataImage, broker_id: int, listener: str) -> Address | None:
    broker = image.brokers.get(broker_id)
    endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)
