"""Reading from followers (KIP-392), deleting records on all replicas, and leaders in answers to clients."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from cordwood.wire.messages.fetch import PartitionData
from data_answers.batches import batch
from data_answers.requests import fetch, produce
from tests.common.simulated_cluster import Cluster, with_cluster

_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def write(cluster: Cluster, *values: str, acks: int = -1) -> None:
    response = await cluster.ask(cluster.leader(), produce("t", batch(*values), acks=acks), 9)
    assert not response.responses[0].partition_responses[0].error_code


async def read(
    cluster: Cluster,
    node: int,
    offset: int,
    *,
    rack: str = "",
    version: int = 12,
    max_wait_ms: int = 0,
    epoch: int = -1,
) -> PartitionData:
    request = fetch({("t", 0): {"fetch_offset": offset, "current_leader_epoch": epoch}}, max_wait_ms=max_wait_ms)
    request.rack_id = rack
    response = await cluster.ask(node, request, version)
    return response.responses[0].partitions[0]


async def delete_before(cluster: Cluster, offset: int, timeout_ms: int = 5_000) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    response = await cluster.ask(cluster.leader(), DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms), 2)
    return response.topics[0].partitions[0]


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a", "b")
        answer = await read(cluster, 1, 0, rack="rack3")
        assert (answer.preferred_read_replica, answer.records) == (3, b"")
        for rack in ("", "rack1", "elsewhere"):
            answer = await read(cluster, 1, 0, rack=rack)
            assert answer.preferred_read_replica == -1
            assert answer.records

    with_cluster(test, replica_selector_class=_SELECTOR)


def test_consumers_read_from_the_leader_by_default() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        answer = await read(cluster, 1, 0, rack="rack3")
        assert (answer.preferred_read_replica, bool(answer.records)) == (-1, True)

    with_cluster(test)


def test_a_replica_out_of_sync_is_not_preferred() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        cluster.machines[3].kill()
        await cluster.until_isr(1, 2)
        answer = await read(cluster, 1, 0, rack="rack3")
        assert (answer.preferred_read_replica, bool(answer.records)) == (-1, True)

    with_cluster(test, replica_selector_class=_SELECTOR)


def test_a_follower_serves_consumers_up_to_its_high_watermark() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        await cluster.until(lambda: cluster.log(3).high_watermark == 1)
        answer = await read(cluster, 3, 0, rack="rack3")
        assert (ErrorCode(answer.error_code), answer.high_watermark) == (ErrorCode.NONE, 1)
        assert answer.records
        # Where a consumer of the leader may be, and the follower is not yet.
        assert ErrorCode((await read(cluster, 3, 2)).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE

    with_cluster(test)


def test_a_consumer_that_waits_at_a_follower_is_woken_by_its_high_watermark() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        await cluster.until(lambda: cluster.log(3).high_watermark == 1)
        waiting = asyncio.ensure_future(read(cluster, 3, 1, max_wait_ms=20_000))
        await asyncio.sleep(0.05)
        began_s = cluster.world.loop.time()
        await write(cluster, "b")
        answer = await waiting
        assert answer.records
        assert cluster.world.loop.time() - began_s < 1

    with_cluster(test)


def test_consumers_from_before_kip_392_are_not_served_by_followers() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        answer = await read(cluster, 3, 0, version=10)
        assert ErrorCode(answer.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_cluster(test)


@pytest.mark.parametrize(
    ("epoch", "error"), [(0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NONE)]
)
def test_a_follower_checks_the_leader_epoch_of_consumers(epoch: int, error: ErrorCode) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a")
        assert ErrorCode((await read(cluster, 3, 0, epoch=epoch)).error_code) is error

    with_cluster(test)


def test_produce_to_a_follower_names_the_leader() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        response = await cluster.ask(2, produce("t", batch("a")), 10)
        (answer,) = response.responses[0].partition_responses
        assert ErrorCode(answer.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
        assert [(node.node_id, node.host) for node in response.node_endpoints] == [(1, "node1")]

    with_cluster(test)


def test_records_are_deleted_on_all_replicas_before_it_is_answered() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        for value in "abcde":
            await write(cluster, value)
        began_s = cluster.world.loop.time()
        answer = await delete_before(cluster, 3)
        assert (ErrorCode(answer.error_code), answer.low_watermark) == (ErrorCode.NONE, 3)
        assert [cluster.log(node).start_offset for node in (1, 2, 3)] == [3, 3, 3]
        assert cluster.world.loop.time() - began_s < 1.5

    with_cluster(test)


def test_deleting_records_does_not_wait_for_dead_replicas() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a", "b")
        await write(cluster, "c")
        cluster.machines[3].kill()
        answer = await delete_before(cluster, 2)
        assert (ErrorCode(answer.error_code), answer.low_watermark) == (ErrorCode.NONE, 2)

    with_cluster(test)


def test_deleting_records_times_out_while_a_live_replica_does_not_follow() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create()
        await write(cluster, "a", "b")
        await write(cluster, "c")
        await cluster.broker(3).fetchers.stop()
        answer = await delete_before(cluster, 2, timeout_ms=1_000)
        assert ErrorCode(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT

    with_cluster(test)
