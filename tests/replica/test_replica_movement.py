"""Replicas that a reassignment adds and removes, leaders that change under load, and the short way of a Produce."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.broker.produce.shortcut import ProduceShortcut
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.messages.produce import PartitionProduceResponse
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.simulated_cluster import Cluster, with_cluster


async def send(cluster: Cluster, node: int, *values: str, acks: int = -1) -> PartitionProduceResponse:
    response = await cluster.ask(node, produce("t", batch(*values), acks=acks, timeout_ms=2_000), 9)
    return response.responses[0].partition_responses[0]


async def reassign(cluster: Cluster, *replicas: int) -> None:
    wanted = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[wanted])], timeout_ms=30_000
    )
    response = await cluster.control(request)
    assert response.error_code == ErrorCode.NONE, response
    assert response.responses[0].partitions[0].error_code == ErrorCode.NONE, response


def test_a_reassignment_copies_to_new_replicas_and_deletes_the_old_ones() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)])
        for number in range(10):
            assert not (await send(cluster, 1, f"v{number}")).error_code
        await reassign(cluster, 3, 4)
        await cluster.until(lambda: cluster.state().replicas == (3, 4) and cluster.leader() in (3, 4))
        assert not (await send(cluster, cluster.leader(), "after")).error_code
        assert cluster.contents(3) == cluster.contents(4)
        for node in (1, 2):
            await cluster.until(lambda node=node: cluster.broker(node).partition("t", 0) is None)  # type: ignore[misc]
            disk = cluster.machines[node].disks["/data"]
            assert "t-0" not in {entry.name for entry in disk.list()}

    with_cluster(test, ids=(1, 2, 3, 4))


def test_a_pending_produce_of_a_moved_partition_gets_not_leader() -> None:
    """Others may have the record, as they have here."""

    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)])
        cluster.machines[2].pause()
        waiting = asyncio.ensure_future(send(cluster, 1, "a"))
        await cluster.until(lambda: cluster.contents(1) != b"")
        await reassign(cluster, 3, 4)
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.until(lambda: cluster.state().replicas == (3, 4))
        assert cluster.contents(3) != b""
        cluster.machines[2].resume()

    with_cluster(test, ids=(1, 2, 3, 4))


def test_a_replica_that_was_down_while_it_was_removed_deletes_its_log_when_it_returns() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)])
        assert not (await send(cluster, 1, "a")).error_code
        cluster.machines[2].kill()
        await cluster.until_isr(1)
        await reassign(cluster, 1, 3)
        await cluster.until(lambda: cluster.state().replicas == (1, 3))
        assert await cluster.start_node(2)
        assert cluster.broker(2).partition("t", 0) is None

    with_cluster(test)


def test_a_preferred_leader_that_takes_over_under_load_loses_nothing() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(2, 3, 1)])
        cluster.machines[2].kill()
        await cluster.until(lambda: cluster.leader() == 3)
        assert await cluster.start_node(2)
        await cluster.until_isr(1, 2, 3)
        acknowledged: list[str] = []
        is_over = False

        async def load() -> None:
            number = 0
            while not is_over:
                answer = await send(cluster, cluster.leader(), f"<{number}>")
                if answer.error_code == ErrorCode.NONE:
                    acknowledged.append(f"<{number}>")
                else:
                    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                number += 1

        loads = [asyncio.ensure_future(load()) for _ in range(3)]
        await asyncio.sleep(0.2)
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic="t", partitions=[0])],
            timeout_ms=30_000,
        )
        assert (await cluster.control(request)).error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.leader() == 2)
        await asyncio.sleep(0.2)
        is_over = True
        await asyncio.gather(*loads)
        await cluster.until(lambda: cluster.contents(1) == cluster.contents(2) == cluster.contents(3))
        written = cluster.contents(2)
        assert len(acknowledged) > 30
        assert [value for value in acknowledged if value.encode() not in written] == []

    with_cluster(test)


@pytest.mark.parametrize("acks", [1, -1])
def test_replicated_produces_are_answered_alike_on_the_short_and_the_general_path(
    acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers() -> list[tuple[ErrorCode, int, int]]:
        told: list[tuple[ErrorCode, int, int]] = []

        async def send_twice(cluster: Cluster, node: int) -> None:
            for _ in range(2):
                answer = await send(cluster, node, "a", "b", acks=acks)
                told.append((ErrorCode(answer.error_code), answer.base_offset, answer.log_start_offset))

        async def test(cluster: Cluster) -> None:
            await cluster.create(configs={"min.insync.replicas": "2"})
            await send_twice(cluster, 1)
            # A follower: this broker does not lead.
            await send_twice(cluster, 2)
            # In sync and silent: acks=all runs into its timeout, or the member is fenced.
            await cluster.broker(3).fetchers.stop()
            await send_twice(cluster, 1)
            cluster.machines[3].kill()
            await cluster.until_isr(1, 2)
            await send_twice(cluster, 1)
            cluster.machines[2].kill()
            await cluster.until_isr(1)
            await send_twice(cluster, 1)

        with_cluster(test)
        return told

    short = answers()
    monkeypatch.setattr(ProduceShortcut, "answer", lambda *_arguments: None)
    assert answers() == short
    errors = {error for error, _, _ in short}
    expected = {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if acks == -1:
        expected |= {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS}
    assert errors == expected


def test_a_replica_moves_between_directories_while_it_follows_and_while_it_leads() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)])
        for number in range(10):
            assert not (await send(cluster, 1, f"v{number}")).error_code
        for node in (2, 1):
            replicas = cluster.broker(node).replicas
            source = replicas.directories.directory_of("t", 0)
            (destination,) = [each for each in replicas.directories.online if each is not source]
            cluster.broker(node).moves.request(cluster.partition(node), destination)
            written = 0
            while replicas.directories.directory_of("t", 0) is source:
                assert not (await send(cluster, 1, f"{node}-{written}")).error_code
                written += 1
            assert not (await send(cluster, 1, "after")).error_code
        await cluster.until(lambda: cluster.contents(1) == cluster.contents(2))
        assert cluster.state().isr == (1, 2)

    with_cluster(test, ids=(1, 2), roots=("/a", "/b"))


def test_a_wiped_replica_begins_where_the_leaders_log_begins() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2)])
        for number in range(10):
            assert not (await send(cluster, 1, f"v{number}")).error_code
        cluster.machines[2].kill()
        await cluster.until_isr(1)
        cluster.partition(1).advance_start(6)
        cluster.wipe(2)
        assert await cluster.start_node(2)
        await cluster.until_isr(1, 2)
        assert (cluster.log(2).start_offset, cluster.log(2).end_offset) == (6, 10)
        assert cluster.contents(1).endswith(cluster.contents(2))

    with_cluster(test, ids=(1, 2))
