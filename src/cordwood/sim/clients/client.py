"""Common parts of a workload's clients: one connection at a time, retries, and the history that they write."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import NetworkError
from cordwood.sim.cluster import Cluster
from cordwood.sim.histories.history import History, Partition
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.watches.partition_watch import PartitionWatch
from cordwood.sim.world import World
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request, ResponseT

from .routes import Routes

_CONNECT_TIMEOUT_S = 2.0
_REQUEST_TIMEOUT_S = 5.0
# Between attempts to connect.
_BACKOFF_S = 0.2
_MAX_MACHINES = 100
_BATCHES_SINCE = 4


class Over(Exception):
    """The workload has ended; open requests stay unanswered."""


class Run:
    """One history in the making."""

    def __init__(self, world: World, machine: Machine, history: History, cluster: Cluster | None = None) -> None:
        """`machine` is the only node, or one of the brokers of `cluster`."""
        self.world = world
        self.machine = machine
        self.cluster = cluster
        self.history = history
        # In a cluster: the partitions as committed by its controllers.
        self.committed: PartitionWatch | None = None
        self.is_over = False
        self.partitions: list[Partition] = []
        self.topic_ids: dict[str, Uuid] = {}
        self._numbers = 0

    @property
    def now_s(self) -> float:
        return self.world.loop.exact_s

    def any_broker(self, source: Random) -> Machine:
        return self.machine if self.cluster is None else source.choice(list(self.cluster.brokers.values()))

    def start_of(self, machine: Machine) -> int:
        """The machine's current incarnation, as a number that no start of another machine has."""
        if self.cluster is None:
            return machine.incarnation
        return machine.incarnation * _MAX_MACHINES + list(self.cluster.machines.values()).index(machine)

    def start_at(self, host: str) -> int:
        machines = [self.machine] if self.cluster is None else self.cluster.machines.values()
        return self.start_of(next(machine for machine in machines if machine.name == host))

    def coordinator_of(self, group: str) -> tuple[int, int] | None:
        """In a cluster: the broker that coordinates a group according to committed metadata, and its leader epoch."""
        if self.committed is None:
            return None
        count = sum(topic == GROUP_TOPIC for topic, _ in self.committed.states)
        state = self.committed.states.get((GROUP_TOPIC, partition_for_id(group, count))) if count else None
        return None if state is None else (state.leader, state.leader_epoch)

    def node_of(self, start: int) -> int:
        """The node id of a machine, given a start of it."""
        assert self.cluster is not None
        return list(self.cluster.machines)[start % _MAX_MACHINES]

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers


class Client:
    def __init__(self, run: Run, name: str, machine: Machine | None = None) -> None:
        """In a cluster it asks the broker on `machine`, or else the one that is responsible for the request."""
        self.run = run
        self.name = name
        self._machine = machine
        self.source: Random = run.world.random(name)
        # The node that the connection is to.
        self.incarnation = 0
        self.routes = Routes(run.cluster, self.source)
        self._network = run.world.network.host(name)
        # By machine: the connection, and the incarnation that it is to.
        self._channels: dict[str, tuple[Channel, int]] = {}
        # For requests that any broker can answer.
        self._favourite: Machine | None = None

    async def channel(self, machine: Machine | None = None) -> Channel:
        """To this machine, or raises `NetworkError`; to any broker, as soon as one can be reached."""
        while True:
            if self.run.is_over:
                raise Over
            chosen = machine or self._machine or self._favourite or self.run.any_broker(self.source)
            known = self._channels.get(chosen.name)
            if known is not None and known[0].lost_error is None:
                self.incarnation = known[1]
                return known[0]
            try:
                channel = await Channel.open(
                    self._network,
                    chosen.name,
                    PORT,
                    client_id=self.name,
                    timeout_s=_CONNECT_TIMEOUT_S,
                )
            except NetworkError:
                self._favourite = None
                await asyncio.sleep(self.source.random() * _BACKOFF_S)
                if machine is not None:
                    raise
                continue
            if machine is None:
                self._favourite = chosen
            # It has had no answers yet, so none can come from an older incarnation.
            self.incarnation = self.run.start_of(chosen)
            self._channels[chosen.name] = (channel, self.incarnation)
            return channel

    async def channel_to_leader(self, partition: Partition) -> Channel:
        """Raises `NetworkError`."""
        return await self.channel(self.routes.leader(partition))

    async def ask(
        self, request: Request[ResponseT], version: int | None = None, machine: Machine | None = None
    ) -> ResponseT:
        """Sends a request to `machine`, or to the responsible broker. Raises `NetworkError`; then the outcome is
        unknown."""
        machine = machine or await self._responsible(request)
        channel = await self.channel(machine)
        incarnation = self.incarnation
        try:
            response = await channel.request(request, self.any_version(request, version), _REQUEST_TIMEOUT_S)
        except NetworkError:
            channel.abort()
            self._favourite = None
            self.routes.forget_coordinators()
            raise
        self.incarnation = incarnation
        return response

    async def _responsible(self, request: Request[Any]) -> Machine | None:
        """None: any broker."""
        coordinated = self.routes.coordinated(request)
        if coordinated is None:
            return self.routes.leader_for(request)
        known = self.routes.coordinator(coordinated)
        if known is None:
            key_type, key = coordinated
            found = await self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), _BATCHES_SINCE)
            if found.coordinators[0].error_code:
                await self.pause(_BACKOFF_S)
                raise NetworkError("no coordinator")
            known = self.routes.note_coordinator(coordinated, found.coordinators[0].host)
        return known

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
        for channel, _ in self._channels.values():
            channel.abort()
        self._channels.clear()
        self._favourite = None

    async def pause(self, seconds: float) -> None:
        """Sleeps for up to this time."""
        await asyncio.sleep(self.source.random() * seconds)

    def chance(self, probability: float) -> bool:
        return self.source.random() < probability


def by_topic(partitions: list[Partition]) -> Iterator[tuple[str, list[int]]]:
    """The partitions of each topic together, as requests have them."""
    for topic in dict.fromkeys(topic for topic, _ in partitions):
        yield topic, [index for other, index in partitions if other == topic]
