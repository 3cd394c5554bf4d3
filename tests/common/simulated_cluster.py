"""A cluster in virtual time: node 1 is the controller and a broker, the others are brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from cordwood.broker.broker import Broker
from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.log.checkpoints.formats import META_PROPERTIES, MetaProperties
from cordwood.log.log import Log
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.net.peers.channel import Channel
from cordwood.replica.partition import Partition
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request, ResponseT

# A network on which nothing is slow or lost.
_ODDS = NetworkOdds(delay_s=0.001, slow=0.0, split=0.0)
# Virtual time that no test takes unless it waits for what never comes.
_LIMIT_S = 10_000.0
_STEP_S = 0.005
_PATIENCE_S = 120.0
TIMEOUT_MS = 30_000
CONTROLLER = 1

Settings = Mapping[str, str]


class Cluster:
    """Machines by node id. `roots` are the log directories of each."""

    def __init__(
        self, world: World, ids: Iterable[int], settings: Settings, roots: tuple[str, ...] = ("/data",)
    ) -> None:
        self.world = world
        self.machines = {node_id: _machine(world, node_id, settings, roots) for node_id in ids}
        self._client = world.network.host("client")
        self._channels: dict[int, Channel] = {}

    async def start(self) -> None:
        assert await self.machines[CONTROLLER].start()
        for node_id in self.machines:
            if node_id != CONTROLLER:
                self._format(node_id, "")
        started = await asyncio.gather(*(self.start_node(node) for node in self.machines if node != CONTROLLER))
        assert all(started)

    def wipe(self, node_id: int, *roots: str) -> None:
        """Its machine is down: all of its directories, or some, are replaced by new, formatted ones."""
        machine = self.machines[node_id]
        assert not machine.is_up
        for root in roots or tuple(machine.disks):
            machine.disks[root] = SimDisk(
                self.world.random(f"wiped {node_id}{root}"), root=root, now_ms=self.world.clock.now_ms, watcher=machine
            )
        self._format(node_id, "wiped", *roots)

    def _format(self, node_id: int, suffix: str, *roots: str) -> None:
        cluster_id = self.broker(CONTROLLER).cluster_id
        for root, disk in self.machines[node_id].disks.items():
            if not roots or root in roots:
                directory_id = f"{node_id}{root}{suffix}".encode().ljust(16, b".")[:16]
                meta = MetaProperties(cluster_id, node_id, directory_id)
                disk.write_file(META_PROPERTIES, meta.encode(self.world.clock.now_ms()))

    async def start_node(self, node_id: int) -> bool:
        self._channels.pop(node_id, None)
        machine = self.machines[node_id]
        is_started = await machine.start()
        assert is_started, machine.refusal
        return is_started

    # Looking into it

    def broker(self, node_id: int) -> Broker:
        node = self.machines[node_id].node
        assert node is not None
        return node.broker

    @property
    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [self.broker(node_id) for node_id, machine in self.machines.items() if machine.is_up]

    def partition(self, node_id: int, topic: str = "t", index: int = 0) -> Partition:
        partition = self.broker(node_id).partition(topic, index)
        assert partition is not None
        return partition

    def log(self, node_id: int, topic: str = "t", index: int = 0) -> Log:
        log = self.partition(node_id, topic, index).log
        assert log is not None
        return log

    def contents(self, node_id: int, topic: str = "t", index: int = 0) -> bytes:
        """All batches of a replica."""
        return b"".join(segment.file.read(0, segment.size) for segment in self.log(node_id, topic, index).segments)

    def state(self, topic: str = "t", index: int = 0) -> PartitionState:
        """The state that the controller has committed."""
        state = self.broker(CONTROLLER).image.topics.partition(topic, index)
        assert state is not None
        return state

    def leader(self, topic: str = "t", index: int = 0) -> int:
        return self.state(topic, index).leader

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        loop = self.world.loop
        deadline = loop.time() + _PATIENCE_S
        while not condition():
            assert loop.time() < deadline, f"waited in vain {what}"
            await asyncio.sleep(_STEP_S)

    async def until_isr(self, *isr: int, topic: str = "t", index: int = 0) -> None:
        await self.until(lambda: set(self.state(topic, index).isr) == set(isr), f"for ISR {isr}")

    # Asking it

    async def create(
        self,
        topic: str = "t",
        replicas: Iterable[Iterable[int]] = ((1, 2, 3),),
        configs: Settings | None = None,
    ) -> Uuid:
        """With the replicas of each partition, the first of which leads it."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(replicas)
        ]
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=settings
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        response = await self.broker(CONTROLLER).controller.ask(request)
        assert not response.topics[0].error_code, response
        for index, brokers in enumerate(replicas):
            for node_id in brokers:
                if self.machines[node_id].is_up:
                    await self.until(
                        lambda node_id=node_id, index=index: self.broker(node_id).partition(topic, index) is not None  # type: ignore[misc]
                    )
        return response.topics[0].topic_id

    async def ask(self, node_id: int, request: Request[ResponseT], version: int) -> ResponseT:
        """As a client does."""
        channel = self._channels.get(node_id)
        if channel is None or channel.lost_error is not None:
            address = self.machines[node_id].name
            channel = await Channel.open(self._client, address, 9092, client_id="test")
            self._channels[node_id] = channel
        return await channel.request(request, version)

    async def control(self, request: Request[ResponseT]) -> ResponseT:
        """As a broker asks the controller."""
        return await self.broker(CONTROLLER).controller.ask(request)


def _machine(world: World, node_id: int, settings: Settings, roots: tuple[str, ...]) -> Machine:
    name = f"node{node_id}"
    machine = Machine(world, name, {}, roots)
    listeners = f"PLAINTEXT://{name}:9092"
    if node_id == CONTROLLER:
        listeners += f",CONTROLLER://{name}:9093"
    machine.config = BrokerConfig.from_layers(
        Layer(
            "the test",
            {
                "node.id": str(node_id),
                "process.roles": "broker,controller" if node_id == CONTROLLER else "broker",
                "listeners": listeners,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.bootstrap.servers": f"node{CONTROLLER}:9093",
                "log.dirs": ",".join(roots),
                "broker.rack": f"rack{node_id}",
                **{key.replace("_", "."): value for key, value in settings.items()},
            },
        )
    )
    return machine


def with_cluster(
    test: Callable[[Cluster], Awaitable[None]],
    ids: Iterable[int] = (1, 2, 3),
    roots: tuple[str, ...] = ("/data",),
    seed: int = 1,
    **settings: str,
) -> None:
    """Settings by their names, with underscores for dots."""
    world = World(seed, odds=_ODDS, limit_s=_LIMIT_S)
    cluster = Cluster(world, ids, settings, roots)

    async def main() -> None:
        await cluster.start()
        await test(cluster)

    world.run(main())
