"""Producing and reading over a network that loses connections, while leaders move: on virtual time, many seeds."""

import asyncio
from typing import Any

import pytest
from scripted_broker import ScriptedBroker, scripted_brokers

from cordwood.client.batch_producer import BatchProducer, ProduceOptions
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import CannotReachCluster
from cordwood.client.fetch_plan import FetchPlan
from cordwood.client.fetcher import Fetcher
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch, read_header

P0 = TopicPartition("t", 0)
RECORDS = 200
LARGEST_BATCH = 16
ODDS = NetworkOdds(loss=0.02, late_notice_s=1.0)


class ModelLog:
    """A partition that both brokers have: appends in the order of sequences, each once."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def append(self, batch: bytes | bytearray | memoryview) -> int:
        header = read_header(batch)
        if header.count > LARGEST_BATCH:
            return ErrorCode.MESSAGE_TOO_LARGE
        # One producer, so its next sequence number is the number of records.
        if header.base_sequence > len(self.values):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.base_sequence == len(self.values):
            self.values += [record.value for record in decode_batch(batch)]
        return ErrorCode.NONE

    def read(self, offset: int) -> bytearray:
        found = self.values[offset : offset + 10]
        records = [Record(number, 0, None, value) for number, value in enumerate(found, offset)]
        return encode_batch(records) if records else bytearray()


def serve(broker: ScriptedBroker, log: ModelLog) -> None:
    def produce(request: ProduceRequest, version: int) -> ProduceResponse:
        topic = request.topic_data[0]
        records = topic.partition_data[0].records
        assert isinstance(records, bytes | bytearray | memoryview)
        leads = broker.leaders[0] == broker.id
        error = log.append(records) if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = PartitionProduceResponse(index=0, error_code=error)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[told])])

    def fetch(request: FetchRequest, version: int) -> FetchResponse:
        topic = request.topics[0]
        leads = broker.leaders[0] == broker.id
        told = PartitionData(
            partition_index=0,
            error_code=ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            high_watermark=len(log.values),
            records=log.read(topic.partitions[0].fetch_offset) if leads else b"",
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[told])])

    broker.answers[ProduceRequest.api_key] = produce
    broker.answers[FetchRequest.api_key] = fetch
    broker.answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(producer_id=1)


async def move_leaders(brokers: list[ScriptedBroker], world: World) -> None:
    """Each broker hears of it in its own time."""
    source = world.random("leaders")
    epoch = 0
    while True:
        await asyncio.sleep(source.uniform(0.0, 1.0))
        epoch += 1
        leader = source.choice([1, 2])
        for broker in source.sample(brokers, 2):
            broker.leaders, broker.leader_epoch = [leader], epoch
            await asyncio.sleep(source.uniform(0.0, 0.3))


async def connected(brokers: list[ScriptedBroker], world: World) -> Client:
    addresses = [broker.address for broker in brokers]
    while True:
        try:
            return await Client.connect(
                addresses, network=world.network.host("client"), random=SeededRandom(world.seed)
            )
        except CannotReachCluster:
            # At the start a client does not insist.
            continue


async def write_and_read(world: World) -> tuple[list[bytes | None], list[bytes | None]]:
    """What the brokers have, and what a reader sees."""
    log = ModelLog()
    async with scripted_brokers(2, world) as brokers:
        for broker in brokers:
            serve(broker, log)
        mover: asyncio.Task[Any] = asyncio.get_running_loop().create_task(move_leaders(brokers, world))
        async with await connected(brokers, world) as client:
            producer = await BatchProducer.start(client, "t", ProduceOptions(), world.clock)
            bursts = world.random("bursts")
            for number in range(RECORDS):
                producer.add(None, b"%d" % number)
                if bursts.random() < 0.1:
                    await asyncio.sleep(bursts.uniform(0.0, 0.2))
            await producer.flush()
            assert producer.delivered == RECORDS
            await producer.close()
            plan = FetchPlan({P0: 0}, {P0: RECORDS})
            reader = Fetcher(client, plan, lambda *moved: None)
            seen = [record.value async for fetched in reader.read() for record in fetched.records]
        mover.cancel()
    return log.values, seen


@pytest.mark.parametrize("seed", range(40))
def test_every_record_arrives_once_and_in_order_and_is_read_so(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600)
    stored, seen = world.run(write_and_read(world))
    expected = [b"%d" % number for number in range(RECORDS)]
    assert stored == expected
    assert seen == expected
