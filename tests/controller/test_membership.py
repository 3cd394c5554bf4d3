"""Brokers that die, stop and come back, and how soon the cluster continues without them, in virtual time."""

from __future__ import annotations

import asyncio

from cordwood.broker.controller.lifecycle import Superseded
from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.log.checkpoints.formats import META_PROPERTIES, MetaProperties
from cordwood.sim.cluster import Cluster, Layout
from cordwood.sim.machine import PORT, Machine
from tests.controller.clusters import GRACE_MS, HEARTBEAT_MS, SESSION_MS, create, image, partition, run, until


def test_the_partitions_of_a_killed_broker_are_led_elsewhere_at_once() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2, 3, 1], 1: [2, 1, 3]})
        cluster.machines[2].kill()
        took_ms = await until(cluster, lambda: partition(cluster).leader == 3)
        assert took_ms < GRACE_MS / 2
        assert partition(cluster, 1).leader == 1, "all of them by the same decision"
        assert image(cluster).brokers[2].fenced

    run(main)


def test_a_broker_that_is_cut_off_is_fenced_after_the_session_timeout() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2, 3, 1]})
        cluster.world.network.cut("node2")
        took_ms = await until(cluster, lambda: partition(cluster).leader == 3)
        assert SESSION_MS - HEARTBEAT_MS - 200 <= took_ms < SESSION_MS + 200
        cluster.world.network.heal("node2")
        await until(cluster, lambda: not image(cluster).brokers[2].fenced)

    run(main)


def test_a_killed_broker_that_is_started_again_is_registered_and_unfenced_at_once() -> None:
    async def main(cluster: Cluster) -> None:
        before = image(cluster).brokers[2].epoch
        cluster.machines[2].kill()
        began = cluster.world.clock.monotonic()
        assert await cluster.machines[2].start()
        broker = image(cluster).brokers[2]
        assert broker.epoch > before
        assert not broker.fenced
        assert cluster.world.clock.monotonic() - began < 1

    run(main)


def test_a_controlled_shutdown_moves_leaderships_and_allows_an_immediate_restart() -> None:
    async def main(cluster: Cluster) -> None:
        await create(cluster, cluster.machines[1], {0: [2, 3, 1]})
        began = cluster.world.clock.monotonic()
        await cluster.machines[2].stop()
        assert partition(cluster).leader == 3
        assert image(cluster).brokers[2].fenced
        assert await cluster.machines[2].start()
        assert not image(cluster).brokers[2].fenced
        assert cluster.world.clock.monotonic() - began < 2

    run(main)


def test_brokers_keep_their_sessions_while_they_send_heartbeats() -> None:
    async def main(cluster: Cluster) -> None:
        before = image(cluster).brokers
        await asyncio.sleep(5 * SESSION_MS / 1000)
        assert image(cluster).brokers == before

    run(main)


def test_the_broker_that_dies_with_the_active_controller_is_fenced_soon_after_the_next_one_is_elected() -> None:
    async def main(cluster: Cluster) -> None:
        active = active_node(cluster)
        await create(cluster, cluster.machines[active], {0: [active, active % 3 + 1]})
        cluster.machines[active].kill()
        await until(cluster, lambda: active_node(cluster) != 0)
        took_ms = await until(cluster, lambda: partition(cluster).leader == active % 3 + 1)
        # It is committed once the other controller has found the new leader.
        assert took_ms < GRACE_MS + 1_000 < SESSION_MS

    run(main, layout=Layout(controllers=3, brokers=3))


def active_node(cluster: Cluster) -> int:
    """The node whose controller is active; 0 if none is."""
    for node_id, machine in cluster.controllers.items():
        if machine.is_up and machine.node is not None and machine.node.controller.is_active:
            return node_id
    return 0


def test_a_node_with_a_live_nodes_id_is_refused_and_the_live_one_is_unaffected() -> None:
    async def main(cluster: Cluster) -> None:
        twin = a_twin(cluster, 2)
        before = image(cluster).brokers
        assert not await twin.start()
        assert twin.refusal is not None
        assert "DUPLICATE_BROKER_REGISTRATION" in twin.refusal
        assert image(cluster).brokers == before

    run(main)


def test_a_node_whose_place_was_taken_while_it_was_out_of_touch_stops() -> None:
    async def main(cluster: Cluster) -> None:
        twin = a_twin(cluster, 2)
        cluster.world.network.cut("node2")
        await until(cluster, lambda: image(cluster).brokers[2].fenced)
        assert await twin.start()
        cluster.world.network.heal("node2")
        await until(cluster, lambda: not cluster.machines[2].is_up)
        replaced = cluster.machines[2].node
        assert replaced is not None
        assert isinstance(replaced.failure, Superseded)

    run(main)


def a_twin(cluster: Cluster, node_id: int) -> Machine:
    """A node on another machine, with its own directory, that was given the id of another."""
    settings = {
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "/data",
        "controller.quorum.bootstrap.servers": "node11:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://twin:{PORT}",
        "initial.broker.registration.timeout.ms": "5000",
    }
    twin = Machine(cluster.world, "twin", {}, config=BrokerConfig.from_layers(Layer("test", settings)))
    meta = MetaProperties(cluster.cluster_id, node_id, b"\x77" * 16)
    twin.disks["/data"].write_file(META_PROPERTIES, meta.encode(cluster.world.clock.now_ms()))
    return twin
