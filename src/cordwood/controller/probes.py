"""Probes of brokers that have no heartbeat connection to the active controller: it tries to connect to their listeners.
A refused connection shows that no process is there. Silence proves nothing.

- A broker whose heartbeat connection closes is probed at once. If its listener refuses, too, it is fenced without
  waiting for `cordwood.broker.reconnect.grace.ms`. A live broker listens, so it still has the grace to reconnect.
- A controller that has just become active has no heartbeat connections yet, and a broker may have died together with
  its predecessor, in one process even. A broker that refuses connections then has the grace to come forward.
"""

from __future__ import annotations

import asyncio

from cordwood.metadata.image import Broker
from cordwood.runtime.network import CannotConnect, Network

from .controller import Controller

_INTERVAL_S = 0.1
_TIMEOUT_S = 2.0


class Probes:
    """Begin when the controller becomes active, and when a heartbeat connection closes."""

    def __init__(self, controller: Controller, network: Network) -> None:
        self._controller = controller
        self._network = network
        self._tasks: set[asyncio.Task[None]] = set()
        controller.on_activation(self._activated)
        controller.on_disconnect(self._disconnected)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _activated(self) -> None:
        for broker in self._controller.image.brokers.values():
            if not broker.fenced and broker.id != self._controller.id:
                self._begin(broker)

    def _disconnected(self, broker_id: int) -> None:
        broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self._begin(broker)

    def _begin(self, broker: Broker) -> None:
        task = asyncio.get_running_loop().create_task(self._probe(broker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, broker: Broker) -> None:
        epoch = self._controller.log.leader.epoch
        while self._controller.awaits(broker.id, broker.epoch) and self._controller.log.leader.epoch == epoch:
            if await self._is_refused(broker):
                self._controller.refused_connection(broker.id, broker.epoch)
            await asyncio.sleep(_INTERVAL_S)

    async def _is_refused(self, broker: Broker) -> bool:
        endpoint = broker.endpoints[0]
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await self._network.connect(endpoint.host, endpoint.port)
        except CannotConnect as error:
            return error.is_refused
        except TimeoutError:
            return False
        connection.abort()
        return False
