"""Administration over a network that loses connections, while leaders and coordinators move: on virtual time."""

import asyncio
from typing import Any

import pytest

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import CannotReachCluster
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.settings import AdminSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators

ODDS = NetworkOdds(loss=0.02, late_notice_s=1.0)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
GROUPS = [f"g{number}" for number in range(6)]
ROUNDS = 10
# The error of one group that cannot be deleted, despite retries.
BUSY = GROUPS[2]


def serve(broker: ScriptedBroker, coordinators: Coordinators) -> None:
    """Each answers for what it leads and coordinates now, and for nothing else."""

    def delete_records(request: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse:
        told = [
            DeleteRecordsPartitionResult(
                partition_index=asked.partition_index,
                low_watermark=asked.offset,
                error_code=ErrorCode.NONE
                if broker.leaders[asked.partition_index] == broker.id
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            for asked in request.topics[0].partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=told)])

    def coordinated(group: str) -> ErrorCode:
        is_ours = coordinators.of.get(group, coordinators.default) == broker.id
        return ErrorCode.NONE if is_ours else ErrorCode.NOT_COORDINATOR

    def fetch_offsets(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        groups = []
        for asked in request.groups:
            told = OffsetFetchResponsePartitions(partition_index=0, committed_offset=GROUPS.index(asked.group_id))
            topic = OffsetFetchResponseTopics(name="t", partitions=[told])
            code = coordinated(asked.group_id)
            groups.append(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code, topics=[topic]))
        return OffsetFetchResponse(groups=groups)

    def delete_groups(request: DeleteGroupsRequest, version: int) -> DeleteGroupsResponse:
        results = []
        for group in request.groups_names:
            code = coordinated(group)
            if code == ErrorCode.NONE and group == BUSY:
                code = ErrorCode.NON_EMPTY_GROUP
            results.append(DeletableGroupResult(group_id=group, error_code=code))
        return DeleteGroupsResponse(results=results)

    broker.answers[DeleteRecordsRequest.api_key] = delete_records
    broker.answers[OffsetFetchRequest.api_key] = fetch_offsets
    broker.answers[DeleteGroupsRequest.api_key] = delete_groups


async def move(brokers: list[ScriptedBroker], coordinators: Coordinators, world: World) -> None:
    """Each broker learns of new leaders in its own time."""
    source = world.random("moves")
    epoch = 0
    while True:
        await asyncio.sleep(source.uniform(0.0, 1.0))
        epoch += 1
        leaders = [source.choice([1, 2]) for _ in PARTITIONS]
        coordinators.of[source.choice(GROUPS)] = source.choice([1, 2])
        for broker in source.sample(brokers, 2):
            broker.leaders, broker.leader_epoch = leaders, epoch
            await asyncio.sleep(source.uniform(0.0, 0.3))


async def started(brokers: list[ScriptedBroker], world: World) -> Admin:
    settings = AdminSettings(bootstrap_servers=tuple(broker.address for broker in brokers))
    while True:
        admin = Admin(settings, network=world.network.host("client"), random=SeededRandom(world.seed))
        try:
            await admin.start()
        except CannotReachCluster:
            # At the start a client does not insist.
            continue
        return admin


async def administer(world: World) -> None:
    async with scripted_brokers(2, world) as brokers:
        coordinators = Coordinators(brokers)
        for broker in brokers:
            broker.leaders = [1] * len(PARTITIONS)
            serve(broker, coordinators)
        mover: asyncio.Task[Any] = asyncio.get_running_loop().create_task(move(brokers, coordinators, world))
        admin = await started(brokers, world)
        for number in range(ROUNDS):
            wanted = {partition: number + partition.partition for partition in PARTITIONS}
            assert await admin.delete_records(wanted) == wanted
            assert await admin.list_consumer_group_offsets(GROUPS) == {
                group: {PARTITIONS[0]: OffsetAndMetadata(position)} for position, group in enumerate(GROUPS)
            }
            failed = await failures_of(admin.delete_consumer_groups(GROUPS))
            assert [(group, error.code) for group, error in failed.items()] == [(BUSY, ErrorCode.NON_EMPTY_GROUP)]
            await asyncio.sleep(world.random("rounds").uniform(0.0, 1.0))
        await admin.close()
        mover.cancel()


@pytest.mark.parametrize("seed", range(30))
def test_each_query_is_answered_by_the_right_broker(seed: int) -> None:
    world = World(seed, odds=ODDS, limit_s=3_600, pauses=True)
    world.run(administer(world))
