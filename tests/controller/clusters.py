"""A controller with three brokers in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from cordwood.config.own_keys import RECONNECT_GRACE_MS
from cordwood.metadata.image import MetadataImage, PartitionRegistration
from cordwood.net.peers.channel import Channel
from cordwood.sim.cluster import Cluster, Layout
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

ONE_CONTROLLER = Layout(controllers=1, brokers=3, is_combined=False)
SESSION_MS, GRACE_MS, HEARTBEAT_MS = 9_000, 300, 2_000


def run(
    main: Callable[[Cluster], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    layout: Layout = ONE_CONTROLLER,
) -> None:
    world = World(1, limit_s=300)

    async def within() -> None:
        base = {
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": str(HEARTBEAT_MS),
            RECONNECT_GRACE_MS: str(GRACE_MS),
        }
        cluster = Cluster(world, layout, {**base, **(settings or {})})
        await cluster.start()
        await main(cluster)

    world.run(within())


def image(cluster: Cluster) -> MetadataImage:
    """As the active controller has it."""
    for machine in cluster.controllers.values():
        if machine.is_up and machine.node is not None:
            controller = machine.node.controller
            if controller.log.leader.leader_id == controller.id:
                return controller.image
    raise AssertionError("no controller is active")


async def until(cluster: Cluster, is_so: Callable[[], bool]) -> float:
    """Waits for it; returns how many milliseconds that took."""
    began = cluster.world.clock.monotonic()
    while not is_so():
        await asyncio.sleep(0.001)
    return (cluster.world.clock.monotonic() - began) * 1000


async def create(cluster: Cluster, machine: Machine, assignments: dict[int, list[int]]) -> None:
    channel = await Channel.open(cluster.world.network.host("client"), machine.name, PORT, client_id="client")
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in assignments.items()
        ],
        configs=[],
    )
    response = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
    channel.close()


def partition(cluster: Cluster, index: int = 0) -> PartitionRegistration:
    topic = image(cluster).topics.get("t")
    assert topic is not None
    return topic.partitions[index]
