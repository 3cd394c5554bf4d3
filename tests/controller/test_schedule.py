"""What the active controller does by itself, in virtual time."""

from __future__ import annotations

import asyncio

from cordwood.controller.figures import FiguresReader
from cordwood.metadata.image import NO_LEADER
from cordwood.sim.cluster import Cluster
from tests.controller.clusters import create, image, partition, run, until
from tests.controller.controllers import Stage, on_stage

CHECK_S = 20


def test_a_preferred_leader_that_comes_back_leads_again_at_the_next_check() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2, 3, 1]})
        cluster.machines[2].kill()
        await until(cluster, lambda: partition(cluster).leader == 3)
        assert await cluster.machines[2].start()
        await until(cluster, lambda: 2 in partition(cluster).isr)
        assert partition(cluster).leader == 3
        took_ms = await until(cluster, lambda: partition(cluster).leader == 2)
        assert took_ms <= 1_000 * CHECK_S

    run(main, {"leader.imbalance.check.interval.seconds": str(CHECK_S)})


def test_preferred_leaders_are_left_alone_where_that_is_configured() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2, 3, 1]})
        cluster.machines[2].kill()
        await until(cluster, lambda: partition(cluster).leader == 3)
        assert await cluster.machines[2].start()
        await until(cluster, lambda: 2 in partition(cluster).isr)
        await asyncio.sleep(3 * CHECK_S)
        assert partition(cluster).leader == 3

    run(main, {"leader.imbalance.check.interval.seconds": str(CHECK_S), "auto.leader.rebalance.enable": "false"})


def test_no_op_records_are_written_twice_a_second() -> None:
    async def main(cluster: Cluster) -> None:
        before = image(cluster).covers.offset
        await asyncio.sleep(10)
        assert 18 <= image(cluster).covers.offset - before <= 22

    run(main)


def test_a_node_that_is_alone_writes_nothing_while_nothing_happens() -> None:
    async def test(stage: Stage) -> None:
        await stage.register_broker()
        before = stage.quorum.end_offset
        await asyncio.sleep(10)
        assert stage.quorum.end_offset == before

    on_stage(test)


def test_the_figures_of_controllers_follow_the_metadata() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2], 1: [2]})
        node = cluster.machines[11].node
        assert node is not None
        reader = FiguresReader(node.controller)
        before = await reader.read()
        assert (before.active_controller_count, before.active_broker_count, before.fenced_broker_count) == (1, 3, 0)
        assert (before.global_topic_count, before.global_partition_count) == (1, 2)
        assert (before.offline_partitions_count, before.preferred_replica_imbalance_count) == (0, 0)
        cluster.machines[2].kill()
        await until(cluster, lambda: partition(cluster).leader == NO_LEADER)
        after = await reader.read()
        assert (after.active_broker_count, after.fenced_broker_count) == (2, 1)
        assert (after.offline_partitions_count, after.preferred_replica_imbalance_count) == (2, 2)
        assert after.timed_out_broker_heartbeat_count == 1

    run(main)
