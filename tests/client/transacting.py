"""Transactional producers on a real node, and what readers of committed records see; all on virtual time.

@BOTH
async def test_something(stage: Stage) -> None:
    producer = await stage.producer("id")
    ...
    assert await stage.committed() == [...]
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest

from cordwood.client.admin.cluster import FeatureUpdate, UpgradeType, update_features
from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World

TOPIC = "t"
PARTITIONS = 3
_NODE = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.two.phase.commit.enable": "true",
}


class Stage:
    """A node with the topic `t`."""

    def __init__(self, world: World, node: Machine) -> None:
        self.world = world
        self.node = node
        self.producers: list[Producer] = []
        self.hosts = 0

    @property
    def bootstrap(self) -> list[Address]:
        return [Address(self.node.name, PORT)]

    def network(self) -> Any:
        self.hosts += 1
        return self.world.network.host(f"client-{self.hosts}")

    async def client(self) -> Client:
        while True:
            try:
                return await Client.connect(self.bootstrap, network=self.network(), random=SeededRandom(self.hosts))
            except CannotReachCluster:
                # At the start a client does not insist.
                continue

    async def producer(self, transactional_id: str, *, keep_prepared: bool = False, **settings: Any) -> Producer:
        """Ready to begin."""
        producer = Producer(
            settings=ProducerSettings(transactional_id=transactional_id, **settings),
            bootstrap=self.bootstrap,
            network=self.network(),
            clock=self.world.clock,
            random=SeededRandom(self.hosts),
        )
        self.producers.append(producer)
        await producer.start()
        await producer.init_transactions(keep_prepared=keep_prepared)
        return producer

    async def writer(self, value: bytes = b"x", **settings: Any) -> Producer:
        """A producer of the id "id" that has begun, and written this into each partition."""
        producer = await self.producer("id", **settings)
        await producer.begin_transaction()
        await write(producer, value)
        return producer

    async def restart_node(self) -> None:
        self.node.kill()
        assert await self.node.start()

    def consumer(self, **settings: Any) -> Consumer:
        return Consumer(
            settings=ConsumerSettings(
                isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest", **settings
            ),
            bootstrap=self.bootstrap,
            network=self.network(),
            clock=self.world.clock,
            random=SeededRandom(self.hosts),
        )

    async def committed(self, topic: str = TOPIC) -> list[list[bytes]]:
        """The values that a reader of committed records sees now, of each partition."""
        seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        async with self.consumer() as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
                for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                    seen[partition.partition] += [record.value for record in records]
        return seen

    async def committed_offset(self, group_id: str, partition: TopicPartition) -> int | None:
        async with self.consumer(group_id=group_id) as consumer:
            found = (await consumer.committed(partition))[partition]
            return None if found is None else found.offset

    async def close(self) -> None:
        for producer in self.producers:
            await producer.close(timeout=0)


Scene = Callable[[Stage], Awaitable[None]]


def on_stage(*versions: int) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Makes a scene a test, for each `transaction.version` of a cluster. Its other arguments are parametrized."""

    def made_test(scene: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def test(version: int, **parameters: Any) -> None:
            play(partial(scene, **parameters), version=version)

        stage, *others = inspect.signature(scene).parameters.values()
        assert stage.name == "stage"
        version = inspect.Parameter("version", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([version, *others])  # type: ignore[attr-defined]
        test.__name__, test.__doc__ = scene.__name__, scene.__doc__
        marked: Callable[..., None] = pytest.mark.parametrize("version", versions)(test)
        return marked

    return made_test


BOTH = on_stage(1, 2)


def play(scene: Scene, *, version: int = 2, seed: int = 1, odds: NetworkOdds | None = None) -> None:
    """`version` is the cluster's `transaction.version`."""
    world = World(seed, odds=odds, limit_s=3_600, pauses=True)

    async def main() -> None:
        node = Machine(world, "broker", _NODE)
        assert await node.start()
        stage = Stage(world, node)
        async with await stage.client() as client:
            await create_topics(client, [NewTopic(TOPIC, PARTITIONS)])
            if version == 1:
                down = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
                outcome = await update_features(client, {"transaction.version": down})
                assert outcome == {"transaction.version": None}
        await scene(stage)
        await stage.close()
        await node.stop()

    world.run(main())


async def write(producer: Producer, value: bytes, partitions: Iterable[int] = range(PARTITIONS)) -> None:
    """Into each of these partitions; acknowledged."""
    deliveries = [await producer.send(TOPIC, value, partition=partition) for partition in partitions]
    for delivery in deliveries:
        await delivery


async def transact(producer: Producer, value: bytes, *, commit: bool = True) -> None:
    await producer.begin_transaction()
    await write(producer, value)
    await (producer.commit_transaction() if commit else producer.abort_transaction())


def each(*values: bytes) -> list[list[bytes]]:
    """The same in every partition."""
    return [list(values)] * PARTITIONS
