"""The producer over a network that loses connections, with brokers that fail in every way they may: virtual time.

Each record is written once and in order, and each delivery gets its result once.
"""

import asyncio
from typing import Any

import pytest

from cordwood.client.errors import CannotReachCluster, ClientError
from cordwood.client.producer.deliveries import Delivery, RecordMetadata
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.client.model_partition import ModelPartition, answer, records_of
from tests.client.scripted_broker import Cut, ScriptedBroker, scripted_brokers

PARTITIONS = 3
RECORDS = 300
PEACEFUL = 30
ODDS = NetworkOdds(loss=0.01, late_notice_s=1.0)


class ModelCluster:
    """Two brokers that share their partitions; `fault` is how likely an answer is another than it should be."""

    def __init__(self, brokers: list[ScriptedBroker], world: World, fault: float, largest_batch: int | None) -> None:
        self.partitions = [ModelPartition(largest_batch) for _ in range(PARTITIONS)]
        self.identities = 0
        self._brokers = brokers
        self._world = world
        self._source = world.random("faults")
        self.fault = fault
        for broker in brokers:
            broker.leaders = [1] * PARTITIONS
            self._serve(broker)

    async def move_leaders(self) -> None:
        """Each broker learns of it in its own time."""
        source = self._world.random("leaders")
        epoch = 0
        while True:
            await asyncio.sleep(source.uniform(0.0, 1.0))
            epoch += 1
            leaders = [source.choice([1, 2]) for _ in range(PARTITIONS)]
            for broker in source.sample(self._brokers, 2):
                broker.leaders, broker.leader_epoch = leaders, epoch
                await asyncio.sleep(source.uniform(0.0, 0.3))

    def settle(self) -> None:
        self.fault = 0.0
        for broker in self._brokers:
            broker.leaders, broker.leader_epoch = [1] * PARTITIONS, 1_000_000

    def _serve(self, broker: ScriptedBroker) -> None:
        def produce(request: ProduceRequest, version: int) -> ProduceResponse:
            told = {}
            for topic in request.topic_data:
                for data in topic.partition_data:
                    records = records_of(data)
                    told[topic.name, data.index] = self._append(broker, data.index, records)
            if self._source.random() < self.fault:
                raise Cut
            response = answer(request, told)
            response.node_endpoints = [
                NodeEndpoint(node_id=peer.id, host=peer.address.host, port=peer.address.port) for peer in self._brokers
            ]
            return response

        def identify(request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
            if self._source.random() < self.fault:
                return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self.identities += 1
            return InitProducerIdResponse(producer_id=self.identities)

        broker.answers[ProduceRequest.api_key] = produce
        broker.answers[InitProducerIdRequest.api_key] = identify

    def _append(self, broker: ScriptedBroker, index: int, records: Any) -> PartitionProduceResponse:
        leader = broker.leaders[index]
        if leader != broker.id:
            hint = LeaderIdAndEpoch(leader_id=leader, leader_epoch=broker.leader_epoch)
            if self._source.random() < 0.5:
                hint = LeaderIdAndEpoch()
            return PartitionProduceResponse(
                index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1, current_leader=hint
            )
        if self._source.random() < self.fault:
            code = self._source.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.LEADER_NOT_AVAILABLE])
            return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
        code, offset = self.partitions[index].append(records)
        if code == ErrorCode.NONE and self._source.random() < self.fault:
            code = self._source.choice([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT])
        return PartitionProduceResponse(index=index, error_code=code, base_offset=offset)


async def started(brokers: list[ScriptedBroker], world: World, settings: ProducerSettings) -> Producer:
    while True:
        producer = Producer(
            settings,
            [broker.address for broker in brokers],
            network=world.network.host("client"),
            clock=world.clock,
            random=SeededRandom(world.seed),
        )
        try:
            await producer.start()
        except CannotReachCluster:
            # At the start a client does not insist.
            continue
        return producer


class Told:
    """The results of each delivery, and their number."""

    def __init__(self) -> None:
        self.metadata: dict[bytes, RecordMetadata] = {}
        self.errors: dict[bytes, ClientError] = {}
        self.calls = 0

    def watch(self, value: bytes, delivery: Delivery) -> None:
        def done(delivery: Delivery) -> None:
            self.calls += 1
            assert value not in {**self.metadata, **self.errors}
            error = delivery.exception(0)
            if error is None:
                self.metadata[value] = delivery.result(0)
            else:
                self.errors[value] = error

        delivery.add_done_callback(done)


async def produce(
    world: World, settings: ProducerSettings, *, fault: float, largest_batch: int | None = None
) -> tuple[ModelCluster, Told]:
    told = Told()
    async with scripted_brokers(2, world) as brokers:
        cluster = ModelCluster(brokers, world, fault, largest_batch)
        mover = asyncio.get_running_loop().create_task(cluster.move_leaders())
        producer = await started(brokers, world, settings)
        bursts = world.random("bursts")
        for number in range(RECORDS):
            value = b"%d" % number
            told.watch(value, await producer.send("t", value, partition=bursts.randrange(PARTITIONS)))
            if bursts.random() < 0.1:
                await asyncio.sleep(bursts.uniform(0.0, 0.2))
        await producer.flush()
        mover.cancel()
        await produce_in_peace(world, cluster, producer)
        await producer.close()
    return cluster, told


async def produce_in_peace(world: World, cluster: ModelCluster, producer: Producer) -> None:
    """After any faults a producer works when its brokers do."""
    world.network.odds = NetworkOdds(slow=0.0)
    cluster.settle()
    # Until silent brokers are fenced.
    await asyncio.sleep(10)
    deliveries = [
        await producer.send("t", b"%d" % (RECORDS + number), partition=number % PARTITIONS)
        for number in range(PEACEFUL)
    ]
    for delivery in deliveries:
        await delivery
    metrics = producer.metrics()
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]


def check_what_was_told(cluster: ModelCluster, told: Told) -> None:
    assert told.calls == RECORDS
    for value, metadata in told.metadata.items():
        log = cluster.partitions[metadata.partition].values
        assert log.count(value) == 1
        if metadata.offset >= 0:
            assert log[metadata.offset] == value
    for partition in cluster.partitions:
        numbers = [int(value or b"") for value in partition.values]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("seed", range(40))
def test_every_record_is_written_once_in_order_and_acknowledged_once(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600, pauses=True)
    settings = ProducerSettings(batch_size=200, linger_ms=5 if seed % 2 else 0)
    cluster, told = world.run(produce(world, settings, fault=0.1, largest_batch=4 if seed % 3 == 0 else None))
    assert not told.errors
    check_what_was_told(cluster, told)


@pytest.mark.parametrize("seed", range(40))
def test_abandoned_records_may_be_missing_but_not_duplicated_or_reordered(seed: int) -> None:
    world = World(seed, odds=NetworkOdds(loss=0.03, late_notice_s=3.0), limit_s=3_600, pauses=True)
    settings = ProducerSettings(
        batch_size=200, linger_ms=1, request_timeout_ms=300, delivery_timeout_ms=700, max_block_ms=600_000
    )
    cluster, told = world.run(produce(world, settings, fault=0.4))
    check_what_was_told(cluster, told)


@pytest.mark.parametrize("seed", range(20))
def test_without_idempotence_one_in_flight_keeps_order_though_some_may_be_twice(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600, pauses=True)
    settings = ProducerSettings(
        batch_size=200, linger_ms=1, enable_idempotence=False, max_in_flight_requests_per_connection=1
    )
    cluster, told = world.run(produce(world, settings, fault=0.1))
    assert not told.errors
    assert told.calls == RECORDS
    written = 0
    for partition in cluster.partitions:
        numbers = list(dict.fromkeys(int(value or b"") for value in partition.values))
        assert numbers == sorted(numbers)
        written += len(numbers)
    assert written == RECORDS + PEACEFUL


@pytest.mark.parametrize("seed", range(10))
def test_a_small_memory_makes_senders_wait_and_loses_nothing(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600, pauses=True)
    settings = ProducerSettings(batch_size=200, buffer_memory=4_000, max_block_ms=600_000)
    cluster, told = world.run(produce(world, settings, fault=0.1))
    assert not told.errors
    check_what_was_told(cluster, told)
