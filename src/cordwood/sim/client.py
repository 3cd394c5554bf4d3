"""Common parts of a workload's clients: one connection at a time, retries, and the history that they write."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from cordwood.net.channel import Channel
from cordwood.runtime.network import NetworkError
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request, ResponseT

from .cluster import Cluster
from .history import History, Partition
from .machine import PORT, Machine
from .world import World

_CONNECT_TIMEOUT_S = 2.0
_REQUEST_TIMEOUT_S = 5.0
# Between attempts to connect.
_BACKOFF_S = 0.2


class Over(Exception):
    """The workload has ended; what is not answered stays so."""


class Run:
    """One history in the making."""

    def __init__(self, world: World, machine: Machine, history: History, cluster: Cluster | None = None) -> None:
        """`machine` is the only node, or one of the brokers of `cluster`."""
        self.world = world
        self.machine = machine
        self.cluster = cluster
        self.history = history
        self.is_over = False
        self.partitions: list[Partition] = []
        self.topic_ids: dict[str, Uuid] = {}
        self._numbers = 0

    @property
    def now_s(self) -> float:
        return self.world.loop.exact_s

    def any_broker(self, source: Random) -> Machine:
        return self.machine if self.cluster is None else source.choice(list(self.cluster.brokers.values()))

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers


class Client:
    def __init__(self, run: Run, name: str, machine: Machine | None = None) -> None:
        """Of a cluster it asks the broker on `machine`, or else any."""
        self.run = run
        self.name = name
        self._machine = machine
        self.source: Random = run.world.random(name)
        # The node that the connection is to.
        self.incarnation = 0
        self._network = run.world.network.host(name)
        self._channel: Channel | None = None

    async def channel(self) -> Channel:
        while True:
            if self.run.is_over:
                raise Over
            if self._channel is not None and self._channel.lost_error is None:
                return self._channel
            machine = self._machine or self.run.any_broker(self.source)
            try:
                self._channel = await Channel.open(
                    self._network,
                    machine.name,
                    PORT,
                    client_id=self.name,
                    timeout_s=_CONNECT_TIMEOUT_S,
                )
                # Nothing can have been answered on it yet, so an older one cannot answer on it.
                self.incarnation = machine.incarnation
            except NetworkError:
                await asyncio.sleep(self.source.random() * _BACKOFF_S)

    async def ask(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        """Raises `NetworkError`; nobody knows then what has become of it."""
        channel = await self.channel()
        try:
            return await channel.request(request, self.any_version(request, version), _REQUEST_TIMEOUT_S)
        except NetworkError:
            channel.abort()
            raise

    async def ask_until_answered(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        while True:
            try:
                return await self.ask(request, version)
            except NetworkError:
                await self.pause(_BACKOFF_S)

    def any_version(self, request: Request[Any], version: int | None = None) -> int:
        if version is not None:
            return version
        versions = type(request).stable_versions
        return self.source.randint(versions.low, versions.high)

    def disconnect(self) -> None:
        if self._channel is not None:
            self._channel.abort()
            self._channel = None

    async def pause(self, seconds: float) -> None:
        """Up to so long."""
        await asyncio.sleep(self.source.random() * seconds)

    def chance(self, probability: float) -> bool:
        return self.source.random() < probability


def by_topic(partitions: list[Partition]) -> Iterator[tuple[str, list[int]]]:
    """The partitions of each topic together, as requests have them."""
    for topic in dict.fromkeys(topic for topic, _ in partitions):
        yield topic, [index for other, index in partitions if other == topic]
