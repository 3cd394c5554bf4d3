"""A cluster for whole consumers in groups: a node on virtual time, or Kafka with CORDWOOD_TEST_KAFKA=host:port.

async def scene(cluster: GroupCluster) -> None:
    await cluster.produce(100)
    reader = await cluster.reader("first", group_protocol="consumer")
    await cluster.until(lambda: len(reader.seen) == 100)

play(scene)
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import Settings
from cordwood.runtime.clock import Clock, SystemClock
from cordwood.runtime.network import Address, CannotConnect, Connection, Listener, Network, SocketOptions
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World

T = TypeVar("T")

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")
PARTITIONS = 4
_NODE = {"group.initial.rebalance.delay.ms": "0", "group.consumer.regex.refresh.interval.ms": "10000"}
_LOOK_S = 0.1
# Members that die are noticed after 45 s.
_PATIENCE_S = 150.0


class GroupCluster:
    """`topic` has 4 partitions, and `group_id` is unique."""

    def __init__(
        self, bootstrap: Sequence[Address], network: Callable[[str], Network], clock: Clock, name: str
    ) -> None:
        self.topic = f"t{name}"
        self.group_id = f"g{name}"
        self.readers: list[Reader] = []
        self.gone: list[Reader] = []
        """Those that a test has ended itself."""
        self.produced = 0
        self.node: Machine | None = None
        """None if it is not ours."""
        self._bootstrap = bootstrap
        self._network = network
        self._clock = clock

    @property
    def partitions(self) -> set[TopicPartition]:
        return {TopicPartition(self.topic, index) for index in range(PARTITIONS)}

    async def connect(self) -> None:
        self.client = await _insisting(
            lambda: Client.connect(self._bootstrap, Settings(), network=self._network("admin"), random=SeededRandom(1))
        )
        await self.create(self.topic, PARTITIONS)
        self._producer = Producer(
            ProducerSettings(),
            self._bootstrap,
            network=self._network("producer"),
            clock=self._clock,
            random=SeededRandom(2),
        )
        await _insisting(self._producer.start)

    async def close(self) -> None:
        for reader in self.readers:
            await reader.close()
        await self._producer.close()
        await self.client.close()

    @property
    def seen(self) -> set[int]:
        return {number for reader in (*self.readers, *self.gone) for number in reader.seen}

    async def create(self, topic: str, partitions: int) -> None:
        await create_topics(self.client, [NewTopic(topic, partitions)])

    async def produce(self, count: int) -> None:
        """Keys spread them over the partitions."""
        numbers = range(self.produced, self.produced + count)
        self.produced += count
        await (await self._producer.send_many((self.topic, b"%d" % number, b"%d" % number) for number in numbers))

    async def reader(
        self,
        name: str,
        *,
        pattern: Any = None,
        listener: Any = None,
        kind: "type[Reader] | None" = None,
        progress: Any = None,
        **settings: Any,
    ) -> "Reader":
        """The partitions of the topic, unless there is a pattern. Another kind is its own listener, and writes down its
        progress."""
        network = CutNetwork(self._network(name))
        consumer = self.consumer(network, **settings)
        reader = (kind or Reader)(consumer, network, progress)
        consumer.subscribe((self.topic,) if pattern is None else (), pattern, listener if kind is None else reader)
        await consumer.start()
        self.readers.append(reader)
        reader.resume()
        return reader

    def consumer(self, network: Network, **settings: Any) -> Consumer:
        options = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 5_000, **settings}
        return Consumer(
            settings=ConsumerSettings(group_id=self.group_id, **options),
            network=network,
            bootstrap=self._bootstrap,
            clock=self._clock,
            # No two may draw the same member id.
            random=SeededRandom(len(self.readers) + len(self.gone) if KAFKA is None else None),
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _PATIENCE_S
        while not condition():
            for reader in self.readers:
                reader.raise_errors()
            assert loop.time() < end_s, [(len(reader.seen), reader.assignment) for reader in self.readers]
            await asyncio.sleep(_LOOK_S)

    async def until_shared(self, *readers: "Reader") -> None:
        """Each has some of the partitions, and together they have all."""

        def is_shared() -> bool:
            assigned = [reader.assignment for reader in readers]
            return set().union(*assigned) == self.partitions and sum(map(len, assigned)) == PARTITIONS and all(assigned)

        await self.until(is_shared)


class Reader:
    """An application that polls; `seen` is what it was given, as numbers."""

    def __init__(self, consumer: Consumer, network: "CutNetwork", progress: Any = None) -> None:
        self.consumer = consumer
        self.progress = progress
        self.seen: list[int] = []
        self._network = network
        self._polls: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> set[TopicPartition]:
        return self.consumer.assignment()

    def raise_errors(self) -> None:
        if self._polls is not None and self._polls.done() and not self._polls.cancelled():
            self._polls.result()

    def resume(self) -> None:
        self._polls = asyncio.get_running_loop().create_task(self._work_on())

    async def stall(self) -> None:
        """The application hangs; the consumer works in the background."""
        if self._polls is not None:
            self._polls.cancel()
            await asyncio.gather(self._polls, return_exceptions=True)
            self._polls = None

    async def close(self) -> None:
        await self.stall()
        await self.consumer.close()

    async def kill(self) -> None:
        """Without a word to anyone: no commit, and its group has to find out."""
        await self.stall()
        self._network.cut()
        await self.consumer.close(timeout_ms=0)

    async def work(self) -> None:
        records = await self.consumer.poll(timeout_ms=1_000)
        for some in records.values():
            self.seen += [int(record.value or b"") for record in some]

    async def _work_on(self) -> None:
        while True:
            await self.work()


class CutNetwork:
    """A network that can be cut, so that nothing gets out any more."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._connections: list[Connection] = []
        self._is_cut = False

    def cut(self) -> None:
        self._is_cut = True
        for connection in self._connections:
            connection.abort()

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        if self._is_cut:
            raise CannotConnect(host, port, "the cable is cut")
        connection = await self._network.connect(host, port, tls, options)
        self._connections.append(connection)
        return connection

    async def listen(self, *args: Any, **kwargs: Any) -> Listener:
        return await self._network.listen(*args, **kwargs)


def play(
    scene: Callable[[GroupCluster], Awaitable[None]],
    *,
    seed: int = 1,
    odds: NetworkOdds | None = None,
    node_settings: Mapping[str, str] | None = None,
) -> None:
    """With a network or a node of a certain kind it is always a simulated one."""
    if KAFKA is not None and odds is None and node_settings is None:
        network = SocketNetwork()
        name = f"-{uuid4().hex[:8]}"
        asyncio.run(_play(scene, GroupCluster(parse_bootstrap(KAFKA), lambda host: network, SystemClock(), name)))
        return
    world = World(seed, odds=odds, limit_s=7_200, pauses=True)

    async def main() -> None:
        node = Machine(world, "node", {**_NODE, **(node_settings or {})})
        assert await node.start()
        cluster = GroupCluster([Address(node.name, PORT)], world.network.host, world.clock, "")
        cluster.node = node
        await _play(scene, cluster)

    world.run(main())


async def _play(scene: Callable[[GroupCluster], Awaitable[None]], cluster: GroupCluster) -> None:
    await cluster.connect()
    await scene(cluster)
    await cluster.close()


async def _insisting(connect: Callable[[], Awaitable[T]]) -> T:
    """At the start a client does not insist."""
    while True:
        try:
            return await connect()
        except CannotReachCluster:
            await asyncio.sleep(_LOOK_S)
