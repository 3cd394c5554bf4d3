"""Reading over a network that loses connections, while leaders move and the application does as it likes: on virtual
time, many seeds."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from cordwood.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cordwood.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.client.fetched_data import batch, partition_data
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers

PARTITIONS = 3
LOG_END = 120
ODDS = NetworkOdds(loss=0.02, late_notice_s=1.0)
SETTINGS = ConsumerSettings(
    auto_offset_reset="earliest", max_poll_records=7, max_partition_fetch_bytes=400, fetch_max_bytes=900
)


class Sessions:
    """A broker's fetch sessions: what each of its clients wants, as far as it remembers."""

    def __init__(self, broker: ScriptedBroker, world: World) -> None:
        self._broker = broker
        self._random = world.random(f"broker {broker.id}")
        self._sessions: dict[int, dict[int, int]] = {}
        self._epochs: dict[int, int] = {}
        self._last_id = broker.id * 1000

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        if request.session_epoch == 0:
            self._last_id += 1
            session_id = self._last_id
            self._sessions[session_id], self._epochs[session_id] = {}, 0
        else:
            session_id = request.session_id
            if session_id not in self._sessions or self._random.random() < 0.02:
                self._sessions.pop(session_id, None)
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if request.session_epoch != self._epochs[session_id] + 1:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            self._epochs[session_id] += 1
        wanted = self._sessions[session_id]
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                wanted.pop(number, None)
        for topic in request.topics:
            for partition in topic.partitions:
                wanted[partition.partition] = partition.fetch_offset
        told = []
        for number, offset in wanted.items():
            if self._broker.leaders[number] != self._broker.id:
                told.append(partition_data(None, partition=number, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            end = min(LOG_END, offset + self._random.randrange(9))
            contents = batch(*range(offset, end), epoch=self._broker.leader_epoch) if end > offset else None
            if contents or request.session_epoch == 0:
                told.append(partition_data(contents, partition=number, end=LOG_END))
        topic_id = bytes(range(16))
        topics = [FetchableTopicResponse(topic_id=topic_id, partitions=told)] if told else []
        return FetchResponse(session_id=session_id, responses=topics)


def serve(broker: ScriptedBroker, world: World) -> None:
    def list_offsets(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        told = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=0, leader_epoch=0)
            if broker.leaders[each.partition_index] == broker.id
            else ListOffsetsPartitionResponse(
                partition_index=each.partition_index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            for each in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=told)])

    def end_of_epoch(request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        told = [
            EpochEndOffset(partition=each.partition, leader_epoch=each.leader_epoch, end_offset=LOG_END)
            for each in request.topics[0].partitions
        ]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=told)])

    broker.answers[FetchRequest.api_key] = Sessions(broker, world).fetch
    broker.answers[ListOffsetsRequest.api_key] = list_offsets
    broker.answers[OffsetForLeaderEpochRequest.api_key] = end_of_epoch


async def move_leaders(brokers: list[ScriptedBroker], world: World) -> None:
    """Each broker learns of it in its own time."""
    source = world.random("leaders")
    epoch = 0
    while True:
        await asyncio.sleep(source.uniform(0.0, 2.0))
        epoch += 1
        leaders = [source.choice([1, 2]) for _ in range(PARTITIONS)]
        for broker in source.sample(brokers, 2):
            broker.leaders, broker.leader_epoch = leaders, epoch
            await asyncio.sleep(source.uniform(0.0, 0.3))


async def started(brokers: list[ScriptedBroker], world: World, settings: ConsumerSettings = SETTINGS) -> Consumer:
    while True:
        made = Consumer(
            settings=settings,
            network=world.network.host("client"),
            bootstrap=[broker.address for broker in brokers],
            clock=world.clock,
            random=SeededRandom(world.seed),
        )
        try:
            await made.start()
        except CannotReachCluster:
            # At the start a client does not insist.
            continue
        return made


async def read_everything(world: World) -> dict[int, list[int]]:
    seen: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    whims = world.random("application")
    async with scripted_brokers(2, world) as brokers:
        for broker in brokers:
            broker.leaders = [1] * PARTITIONS
            serve(broker, world)
        mover: asyncio.Task[Any] = asyncio.get_running_loop().create_task(move_leaders(brokers, world))
        source = await started(brokers, world)
        partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
        source.assign(partitions)
        while any(len(offsets) < LOG_END for offsets in seen.values()):
            whim = whims.random()
            if whim < 0.2:
                chosen = whims.choice(partitions)
                source.resume(chosen) if chosen in source.paused() else source.pause(chosen)
            elif whim < 0.3:
                await asyncio.sleep(whims.uniform(0.0, 0.5))
            elif whim < 0.5 and not source.paused():
                async for record in source:
                    seen[record.partition].append(record.offset)
                    if whims.random() < 0.3 or all(len(offsets) == LOG_END for offsets in seen.values()):
                        break
            else:
                for partition, records in (await source.poll(whims.uniform(0.0, 300.0))).items():
                    seen[partition.partition] += [record.offset for record in records]
        await source.close()
        mover.cancel()
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_read_once_and_in_order(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600, pauses=True)
    seen = world.run(read_everything(world))
    assert seen == {number: list(range(LOG_END)) for number in range(PARTITIONS)}


async def read_from_one(world: World) -> list[int]:
    """Nothing but its own alarms makes the consumer look again at what has failed."""
    read = [0] * PARTITIONS
    async with scripted_brokers(1, world) as brokers:
        brokers[0].leaders = [1] * PARTITIONS
        serve(brokers[0], world)
        source = await started(brokers, world, replace(SETTINGS, retry_backoff_ms=10, retry_backoff_max_ms=10))
        source.assign([TopicPartition("t", number) for number in range(PARTITIONS)])
        while min(read) < LOG_END:
            for partition, records in (await source.getmany(timeout_ms=None)).items():
                read[partition.partition] += len(records)
        await source.close()
    return read


@pytest.mark.parametrize("seed", range(20))
def test_partitions_due_between_two_clock_readings_are_fetched(seed: int) -> None:
    # Metadata is old after five minutes: by then a consumer that stalls would be woken.
    world = World(seed, odds=NetworkOdds(loss=0.1), limit_s=250, pauses=True)
    assert world.run(read_from_one(world)) == [LOG_END] * PARTITIONS
