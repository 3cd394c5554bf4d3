"""Partitions that are replicated: several nodes in virtual time."""

from __future__ import annotations

import asyncio

from cordwood.wire.errors import ErrorCode
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.simulated_cluster import Cluster, with_cluster

PRODUCE_VERSION = 9


async def write(cluster: Cluster, *values: str, acks: int = -1, topic: str = "t", timeout_ms: int = 30_000) -> int:
    """The base offset."""
    request = produce(topic, batch(*values), acks=acks, timeout_ms=timeout_ms)
    response = await cluster.ask(cluster.leader(topic), request, PRODUCE_VERSION)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return answer.base_offset


async def produce_error(cluster: Cluster, *, acks: int = -1, topic: str = "t", timeout_ms: int = 1_000) -> ErrorCode:
    request = produce(topic, batch("x"), acks=acks, timeout_ms=timeout_ms)
    response = await cluster.ask(cluster.leader(topic), request, PRODUCE_VERSION)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def until_equal(cluster: Cluster, *nodes: int, topic: str = "t") -> None:
    first, *others = nodes
    await cluster.until(
        lambda: all(cluster.contents(node, topic) == cluster.contents(first, topic) for node in others),
        "for equal replicas",
    )


def test_acknowledged_records_are_on_all_in_sync_replicas() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        for number in range(10):
            assert await write(cluster, f"v{number}") == number
            assert [cluster.log(node).end_offset for node in (1, 2, 3)] == [number + 1] * 3
        assert cluster.contents(1) == cluster.contents(2) == cluster.contents(3)
        await cluster.until(lambda: [cluster.log(node).high_watermark for node in (1, 2, 3)] == [10] * 3)

    with_cluster(test)


def test_the_first_produce_to_a_new_topic_waits_for_no_long_poll() -> None:
    async def test(cluster: Cluster) -> None:
        for number in range(20):
            await cluster.create(f"t{number}")
            began_s = cluster.world.loop.time()
            await write(cluster, "a", topic=f"t{number}")
            assert cluster.world.loop.time() - began_s < 0.05

    with_cluster(test, replica_fetch_wait_max_ms="5000")


def test_a_follower_that_dies_leaves_the_isr_and_returns_to_it() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        cluster.machines[3].kill()
        await write(cluster, "b")
        await cluster.until_isr(1, 2)
        await write(cluster, "c")
        assert await cluster.start_node(3)
        await cluster.until_isr(1, 2, 3)
        await until_equal(cluster, 1, 2, 3)

    with_cluster(test)


def test_a_leader_that_dies_is_followed_by_a_replica_in_sync() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(2, 3, 1)])
        for number in range(5):
            await write(cluster, f"v{number}")
        cluster.machines[2].kill()
        await cluster.until(lambda: cluster.leader() == 3)
        assert await write(cluster, "after") == 5
        assert await cluster.start_node(2)
        await cluster.until_isr(1, 2, 3)
        await until_equal(cluster, 1, 2, 3)
        assert cluster.log(2).end_offset == 6

    with_cluster(test)


def test_unreplicated_records_of_a_dead_leader_are_truncated_when_it_returns() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(2, 3, 1)])
        await write(cluster, "a")
        cluster.world.network.cut("node2")
        cluster.partition(2).append(batch("lost"), 1, cluster.world.clock.now_ms())
        cluster.machines[2].kill()
        cluster.world.network.heal("node2")
        await cluster.until(lambda: cluster.leader() == 3)
        await write(cluster, "b", "c")
        assert await cluster.start_node(2)
        await cluster.until_isr(1, 2, 3)
        await until_equal(cluster, 1, 2, 3)

    with_cluster(test)


def test_acks_1_does_not_wait_for_followers() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        cluster.machines[2].kill()
        cluster.machines[3].kill()
        began_s = cluster.world.loop.time()
        await write(cluster, "a", acks=1)
        assert cluster.world.loop.time() - began_s < 0.1

    with_cluster(test)


def test_too_few_replicas_in_sync_refuse_acks_all_and_hold_the_high_watermark() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(configs={"min.insync.replicas": "2"})
        await write(cluster, "a")
        cluster.machines[2].kill()
        cluster.machines[3].kill()
        await cluster.until_isr(1)
        assert await produce_error(cluster) is ErrorCode.NOT_ENOUGH_REPLICAS
        await write(cluster, "b", acks=1)
        await asyncio.sleep(5)
        assert (cluster.log(1).high_watermark, cluster.log(1).end_offset) == (1, 2)
        assert await cluster.start_node(2)
        await cluster.until_isr(1, 2)
        await cluster.until(lambda: cluster.log(1).high_watermark == 2)
        await write(cluster, "c")

    with_cluster(test)


def test_min_isr_above_the_replication_factor_counts_as_that() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)], configs={"min.insync.replicas": "3"})
        await write(cluster, "a")

    with_cluster(test)


def test_a_wiped_replica_catches_up_from_the_start_of_the_log() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(configs={"segment.bytes": "1048576", "segment.ms": "10"})
        for number in range(20):
            await write(cluster, f"v{number}")
        cluster.machines[3].kill()
        await cluster.until_isr(1, 2)
        cluster.wipe(3)
        assert await cluster.start_node(3)
        await cluster.until_isr(1, 2, 3)
        await until_equal(cluster, 1, 2, 3)

    with_cluster(test)


def test_a_replica_wiped_while_it_is_in_sync_catches_up_too() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        for number in range(20):
            await write(cluster, f"v{number}")
        cluster.machines[3].kill()
        cluster.wipe(3)
        assert await cluster.start_node(3)
        await until_equal(cluster, 1, 2, 3)
        await cluster.until_isr(1, 2, 3)

    with_cluster(test)


def test_with_flush_messages_a_follower_acknowledges_only_flushed_records() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(configs={"flush.messages": "1"})
        for number in range(5):
            began_s = cluster.world.loop.time()
            await write(cluster, f"v{number}")
            assert [cluster.log(node).durability.recovery_point for node in (1, 2, 3)] == [number + 1] * 3
            assert cluster.world.loop.time() - began_s < 0.2

    with_cluster(test)
