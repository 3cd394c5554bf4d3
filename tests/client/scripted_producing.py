"""A producer, and a broker that answers it as a test says."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from tests.client.model_partition import ModelPartition, answer, records_of
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers


class Stage:
    """One broker with a partition, and a producer."""

    def __init__(self, world: World, broker: ScriptedBroker) -> None:
        self.world = world
        self.broker = broker
        self.partition = ModelPartition()
        broker.answers[ProduceRequest.api_key] = self.produce
        broker.answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(producer_id=7)

    def produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        code, offset = self.partition.append(records_of(data))
        return answer(
            request, {(topic.name, 0): PartitionProduceResponse(index=0, error_code=code, base_offset=offset)}
        )

    def stall(self) -> None:
        """Produce requests are read, and never answered."""
        self.broker.answers[ProduceRequest.api_key] = lambda request, version: None

    def recover(self) -> None:
        self.broker.answers[ProduceRequest.api_key] = self.produce

    def new_producer(self, **settings: Any) -> Producer:
        return Producer(
            ProducerSettings(**settings),
            [self.broker.address],
            network=self.world.network.host("client"),
            clock=self.world.clock,
            random=SeededRandom(1),
        )

    @asynccontextmanager
    async def producer(self, **settings: Any) -> AsyncIterator[Producer]:
        producer = self.new_producer(**settings)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.close(0)


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    world = World(1, odds=NetworkOdds(slow=0.0), limit_s=10_000)

    async def main() -> None:
        async with scripted_brokers(1, world) as brokers:
            await scene(Stage(world, brokers[0]))

    world.run(main())
