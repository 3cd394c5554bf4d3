"""Partitions that move to other brokers, in a simulated cluster: the data follows the plan."""

from __future__ import annotations

from cordwood.net.peers.channel import Channel
from cordwood.sim.cluster import Cluster
from cordwood.sim.machine import PORT
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cordwood.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.controller.clusters import create, partition, run, until


async def reassign(cluster: Cluster, asked_id: int, replicas: list[int] | None) -> None:
    """Asks any broker."""
    client = cluster.world.network.host("client")
    channel = await Channel.open(client, cluster.machines[asked_id].name, PORT, client_id="client")
    plan = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[plan])])
    answer = await channel.request(request, 1)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    channel.close()


async def moving(cluster: Cluster, asked_id: int) -> list[str]:
    client = cluster.world.network.host("client")
    channel = await Channel.open(client, cluster.machines[asked_id].name, PORT, client_id="client")
    answer = await channel.request(ListPartitionReassignmentsRequest(topics=None), 0)
    channel.close()
    return [topic.name for topic in answer.topics]


def test_a_partition_moves_and_is_led_by_its_new_replicas() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [1]})
        await reassign(cluster, 2, [2, 3])
        await until(cluster, lambda: partition(cluster).replicas == (2, 3))
        assert partition(cluster).leader in (2, 3)
        assert set(partition(cluster).isr) == {2, 3}
        assert await moving(cluster, 1) == []

    run(main)


def test_a_plan_blocked_by_a_dead_broker_can_be_replaced() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [1]})
        cluster.machines[3].kill()
        await reassign(cluster, 1, [3])
        assert await moving(cluster, 2) == ["t"]
        await reassign(cluster, 1, [2])
        await until(cluster, lambda: partition(cluster).replicas == (2,))
        assert partition(cluster).leader == 2

    run(main)


def test_a_plan_that_waits_for_a_dead_broker_is_cancelled() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [1]})
        cluster.machines[3].kill()
        await reassign(cluster, 1, [3])
        await reassign(cluster, 2, None)
        assert (partition(cluster).replicas, partition(cluster).leader) == ((1,), 1)
        assert await moving(cluster, 1) == []

    run(main)
