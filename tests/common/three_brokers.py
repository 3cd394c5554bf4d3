"""A cluster of three brokers and a controller in virtual time: brokers are killed and started again at no cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cordwood.broker.broker import Broker
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.metadata.features import BOOTSTRAP_LEVELS, TRANSACTION_VERSION
from cordwood.metadata.image import MetadataImage
from cordwood.net.peers.channel import Channel
from cordwood.replica.partition import Partition
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.cluster import Cluster, Layout, host_of
from cordwood.sim.machine import PORT
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Request, ResponseT

_READING: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
# The controller is never killed.
_LAYOUT = Layout(controllers=1, brokers=3, is_combined=False)
# A network on which nothing is slow or lost.
_ODDS = NetworkOdds(delay_s=0.001, slow=0.0, split=0.0, late_notice_s=0.01)
# Virtual time that no test takes unless it waits for what never comes.
_LIMIT_S = 600.0
# Less than the network takes: no state that lasts for an exchange is missed.
_STEP_S = 0.0005
_SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class ThreeBrokers(Cluster):
    """Brokers 1, 2 and 3."""

    def __init__(self, world: World, settings: dict[str, str], transaction_version: int) -> None:
        levels = BOOTSTRAP_LEVELS | {TRANSACTION_VERSION: transaction_version}
        super().__init__(world, _LAYOUT, _SETTINGS | settings, levels)
        self._hosts = 0

    def settings_of(self, node_id: int) -> Mapping[str, str]:
        # A rack each, where a test is about racks.
        return {"broker.rack": f"rack{node_id}"} if "replica.selector.class" in self.settings else {}

    def kill(self, broker_id: int) -> None:
        """Others lead its partitions, as soon as the controller has noticed."""
        self.machines[broker_id].kill()

    async def restart(self, broker_id: int) -> None:
        assert await self.machines[broker_id].start(), self.machines[broker_id].refusal

    # Looking into it

    def broker(self, broker_id: int) -> Broker:
        node = self.machines[broker_id].node
        assert node is not None
        return node.broker

    def partition(self, broker_id: int, topic: str, index: int = 0) -> Partition:
        partition = self.broker(broker_id).partition(topic, index)
        assert partition is not None
        return partition

    @property
    def _image(self) -> MetadataImage:
        [controller] = self.controllers.values()
        assert controller.node is not None
        return controller.node.controller.image

    def leader(self, topic: str, index: int = 0) -> int:
        """As the controller has it."""
        state = self._image.topics.partition(topic, index)
        assert state is not None
        return state.leader

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(_STEP_S)

    async def until_in_sync(self, topic: str, index: int = 0) -> None:
        def are_in_sync() -> bool:
            state = self._image.topics.partition(topic, index)
            return state is not None and len(state.isr) == len(state.replicas)

        await self.until(are_in_sync)

    async def until_replicated(self, topic: str, index: int = 0) -> None:
        """Until all replicas have the same, and know it for committed."""

        def are_alike() -> bool:
            logs = [self.partition(broker_id, topic, index).log for broker_id in self.brokers]
            return len({(log.end_offset, log.high_watermark) for log in logs if log is not None}) == 1

        await self.until(are_alike)

    async def until_led(self, topic: str, index: int = 0, *, other_than: int) -> int:
        """The new leader, once it leads."""

        def has_moved() -> bool:
            leader = self.leader(topic, index)
            if leader in (other_than, -1) or not self.machines[leader].is_up:
                return False
            partition = self.broker(leader).partition(topic, index)
            return partition is not None and partition.is_leader

        await self.until(has_moved)
        return self.leader(topic, index)

    # Clients

    @property
    def bootstrap(self) -> list[Address]:
        return [Address(host_of(number), PORT) for number in self.brokers]

    def network(self) -> Network:
        self._hosts += 1
        return self.world.network.host(f"client-{self._hosts}")

    def producer(self, **settings: Any) -> Producer:
        return Producer(
            settings=ProducerSettings(**settings),
            bootstrap=self.bootstrap,
            network=self.network(),
            clock=self.world.clock,
            random=SeededRandom(self._hosts),
        )

    async def client(self) -> Client:
        return await Client.connect(self.bootstrap, network=self.network(), random=SeededRandom(self._hosts))

    async def transactional(self, transactional_id: str, **settings: Any) -> Producer:
        """Ready to begin."""
        producer = self.producer(transactional_id=transactional_id, **settings)
        await producer.start()
        await producer.init_transactions()
        return producer

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        return Consumer(
            *topics,
            settings=ConsumerSettings(**_READING | settings),
            bootstrap=self.bootstrap,
            network=self.network(),
            clock=self.world.clock,
            random=SeededRandom(self._hosts),
        )

    async def committed(self, topic: str) -> list[bytes | None]:
        """The values that a reader of committed records sees now, partition by partition."""
        seen: list[bytes | None] = []
        async with self.consumer(isolation_level="read_committed") as consumer:
            known = self._image.topics.get(topic)
            assert known is not None
            for index in sorted(known.partitions):
                partition = TopicPartition(topic, index)
                consumer.assign([partition])
                end = (await consumer.end_offsets([partition]))[partition]
                while await consumer.position(partition) < end:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        seen += [record.value for record in records]
        return seen

    # Asking it

    async def connect(self, broker_id: int) -> Channel:
        return await Channel.open(self.world.network.host("client"), host_of(broker_id), PORT, client_id="test")

    async def ask(self, broker_id: int, request: Request[ResponseT], version: int) -> ResponseT:
        channel = await self.connect(broker_id)
        try:
            return await channel.request(request, version)
        finally:
            channel.close()

    async def create(self, topic: str, *leaders: int, **configs: str) -> Uuid:
        """A partition for each of these leaders, with replicas on all brokers."""
        assignments = [
            CreatableReplicaAssignment(
                partition_index=index, broker_ids=[leader, *(other for other in (1, 2, 3) if other != leader)]
            )
            for index, leader in enumerate(leaders)
        ]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=assignments,
                    configs=[
                        CreatableTopicConfig(name=name.replace("_", "."), value=value)
                        for name, value in configs.items()
                    ],
                )
            ],
            timeout_ms=30_000,
        )
        response = await self.broker(1).controller.ask(request)
        assert not response.topics[0].error_code, response

        def is_everywhere() -> bool:
            return all(
                machine.node.broker.partition(topic, index) is not None
                for machine in self.brokers.values()
                if machine.is_up and machine.node is not None
                for index in range(len(leaders))
            )

        await self.until(is_everywhere)
        return response.topics[0].topic_id


def with_three_brokers(
    test: Callable[[ThreeBrokers], Awaitable[None]],
    *,
    seed: int = 1,
    transaction_version: int = 2,
    **settings: str,
) -> None:
    """Settings by their names, with underscores for dots."""
    world = World(seed, odds=_ODDS, limit_s=_LIMIT_S)
    said = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = ThreeBrokers(world, said, transaction_version)

    async def main() -> None:
        await cluster.start()
        await test(cluster)

    world.run(main())
