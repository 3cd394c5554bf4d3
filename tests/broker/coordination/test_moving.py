"""Coordinators of groups and transactions on three brokers: they follow the leaders of their partitions."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.client.cluster import TopicPartition
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

T0 = TopicPartition("t", 0)


def test_committed_offsets_are_found_after_their_coordinator_was_killed() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        async with cluster.consumer(group_id="g") as consumer:
            consumer.assign([T0])
            index = partition_for_id("g", 3)
            for offset in range(1, 6):
                await consumer.commit({T0: OffsetAndMetadata(offset)})
                coordinator = cluster.leader(GROUP_TOPIC, index)
                cluster.kill(coordinator)
                found = (await consumer.committed(T0))[T0]
                assert found is not None
                assert found.offset == offset
                await cluster.restart(coordinator)
                await cluster.until_in_sync(GROUP_TOPIC, index)

    with_three_brokers(test)


def test_the_coordinators_topic_has_the_configured_replicas() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        found = await cluster.ask(1, FindCoordinatorRequest(key="g", key_type=0), 3)
        assert found.error_code == ErrorCode.NONE
        assert found.node_id == cluster.leader(GROUP_TOPIC, partition_for_id("g", 3))
        assert len(cluster.partition(1, GROUP_TOPIC).state.replicas) == 3

    with_three_brokers(test)


def test_the_coordinators_topic_waits_for_enough_brokers_instead_of_getting_fewer_replicas(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        for _ in range(2):
            found = await cluster.ask(1, FindCoordinatorRequest(key="g", key_type=0), 3)
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert cluster.broker(1).topic_id(GROUP_TOPIC) is None

    with_three_brokers(test, offsets_topic_replication_factor="4")
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(
        "Cannot create __consumer_offsets with offsets.topic.replication.factor=4: INVALID_REPLICATION_FACTOR"
    )


def test_producers_must_retry_while_no_controller_assigns_ids() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        [controller] = cluster.controllers.values()
        controller.kill()
        request = InitProducerIdRequest(transactional_id=None)
        response = await cluster.ask(1, request, 4)
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await controller.start()
        taken = [(await cluster.ask(broker_id, request, 4)).producer_id for broker_id in (1, 2, 3, 1, 2, 3)]
        assert -1 not in taken
        assert len(set(taken)) == len(taken)

    with_three_brokers(test)


def test_a_member_that_waits_for_its_group_is_sent_to_the_new_coordinator() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        found = await cluster.ask(1, FindCoordinatorRequest(key="g", key_type=0), 3)
        index = partition_for_id("g", 3)
        channel = await cluster.connect(found.node_id)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = asyncio.ensure_future(channel.request(join, 3))
        await asyncio.sleep(0.1)
        assert not joined.done()
        others = [broker_id for broker_id in (1, 2, 3) if broker_id != found.node_id]
        stopped = asyncio.ensure_future(cluster.machines[found.node_id].stop())
        assert (await joined).error_code == ErrorCode.NOT_COORDINATOR
        moved = await cluster.ask(others[0], FindCoordinatorRequest(key="g", key_type=0), 3)
        assert moved.node_id == cluster.leader(GROUP_TOPIC, index)
        assert moved.node_id in others
        await stopped

    with_three_brokers(test, group_initial_rebalance_delay_ms="5000")


def test_a_commit_is_acknowledged_when_the_replicas_in_sync_have_it() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        found = await cluster.ask(1, FindCoordinatorRequest(key="g", key_type=0), 3)
        index = partition_for_id("g", 3)
        others = [broker_id for broker_id in (1, 2, 3) if broker_id != found.node_id]
        async with cluster.consumer(group_id="g") as consumer:
            await consumer.commit({T0: OffsetAndMetadata(1)})
            for broker_id in others:
                cluster.kill(broker_id)
            commit = asyncio.ensure_future(consumer.commit({T0: OffsetAndMetadata(2)}))
            log = cluster.partition(found.node_id, GROUP_TOPIC, index).log
            assert log is not None
            await cluster.until(lambda: log.end_offset > log.high_watermark)
            await asyncio.sleep(10)
            assert not commit.done()
            for broker_id in others:
                await cluster.restart(broker_id)
            await commit
            assert log.high_watermark == log.end_offset

    with_three_brokers(test, min_insync_replicas="2")
