"""Probes of brokers that a new active controller has not heard of.

The controller learns that a broker died from the end of its heartbeat connection. It does not have that connection yet
when it has just become active, and the broker may have died together with its predecessor, in one process even. So it
connects to the brokers that have not connected to it: a connection that is refused shows, as well as one that breaks,
that no process is there. The broker has the grace then (`cordwood.broker.reconnect.grace.ms`). Silence proves nothing.
"""

from __future__ import annotations

import asyncio

from cordwood.metadata.image import Broker
from cordwood.runtime.network import CannotConnect, Network

from .controller import Controller

_INTERVAL_S = 0.1
_TIMEOUT_S = 2.0


class Probes:
    """Begin whenever the controller becomes active."""

    def __init__(self, controller: Controller, network: Network) -> None:
        self._controller = controller
        self._network = network
        self._tasks: set[asyncio.Task[None]] = set()
        controller.on_activation(self._activated)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _activated(self) -> None:
        for broker in self._controller.image.brokers.values():
            if not broker.fenced and broker.id != self._controller.id:
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
