"""Several nodes in one world: they elect a controller, register, replicate, and take the same course every time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from cordwood.broker.role import STOP_GRACE_S
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.clients.client import Run
from cordwood.sim.cluster import CONTROLLER_PORT, Cluster, Layout
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.loop import OutOfTime
from cordwood.sim.workloads.stage import Healing
from cordwood.sim.world import World
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from cordwood.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from cordwood.wire.records import decode_batch
from cordwood.wire.schema import Request
from tests.sim.quorum_mutants import serve_a_snapshot_half_written

LAYOUTS = [
    Layout(controllers=1, brokers=1),
    Layout(controllers=3, brokers=3),
    Layout(controllers=3, brokers=3, is_static=True),
    Layout(controllers=3, brokers=2),
    Layout(controllers=1, brokers=3, is_combined=False),
    Layout(controllers=3, brokers=3, is_combined=False, is_static=True),
    Layout(controllers=5, brokers=3, is_combined=False),
]
RECORDS = 20
# By partition.
EXPECTED = [[f"{value}".encode() for value in range(index, RECORDS, 3)] for index in range(3)]


def run(
    seed: int,
    layout: Layout,
    main: Callable[[Cluster], Awaitable[None]],
    settings: Mapping[str, str] = MappingProxyType({}),
) -> str:
    world = World(seed, odds=NetworkOdds(), limit_s=120, pauses=True)

    async def within() -> None:
        await main(Cluster(world, layout, settings))

    world.run(within())
    return world.trace.digest


async def create_topic(cluster: Cluster, machine: Machine, name: str, replication_factor: int) -> None:
    channel = await Channel.open(cluster.world.network.host("client"), machine.name, PORT, client_id="client")
    topic = CreatableTopic(
        name=name, num_partitions=3, replication_factor=replication_factor, assignments=[], configs=[]
    )
    response = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message
    channel.close()


async def produce(cluster: Cluster, topic: str) -> None:
    producer = Producer(
        ProducerSettings(acks=-1),
        [Address(machine.name, PORT) for machine in cluster.brokers.values()],
        network=cluster.world.network.host("client"),
        clock=cluster.world.clock,
        random=SeededRandom(1),
    )
    await producer.start()
    for number in range(RECORDS):
        await producer.send(topic, f"{number}".encode(), partition=number % 3)
    await producer.flush()
    await producer.close()


def values(machine: Machine, topic: str) -> list[list[bytes | None]]:
    """The records in the log of each partition, as this machine has them."""
    found = []
    assert machine.node is not None
    for index in range(3):
        partition = machine.node.broker.replicas.get(topic, index)
        log = None if partition is None else partition.log
        there = None if log is None else log.read(0, 1 << 20, log.end_offset)
        data = b"" if there is None else there.read()
        found.append([record.value for at, _ in batch_headers(data) for record in decode_batch(data, at)])
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_nodes_form_a_cluster_and_replicate_produced_records(layout: Layout) -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start()
        leaders = {machine.node.quorum.leader for machine in cluster.machines.values() if machine.node}
        assert len(leaders) == 1
        for number, machine in cluster.brokers.items():
            await create_topic(cluster, machine, f"topic-{number}", layout.brokers)
            await produce(cluster, f"topic-{number}")
            while not all(values(one, f"topic-{number}") == EXPECTED for one in cluster.brokers.values()):
                await asyncio.sleep(0.01)

    run(1, layout, main)


def test_static_voters_enter_the_log_with_an_upgrade_of_kraft_version_and_can_be_removed_then() -> None:
    async def ask(cluster: Cluster, machine: Machine, port: int, request: Request[Any]) -> Any:
        network = cluster.world.network.host("client")
        channel = await Channel.open(network, machine.name, port, client_id="client")
        try:
            return await channel.request(request, type(request).stable_versions.high)
        finally:
            channel.close()

    def update(*, validate_only: bool = False) -> UpdateFeaturesRequest:
        level = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        return UpdateFeaturesRequest(feature_updates=[level], validate_only=validate_only)

    async def main(cluster: Cluster) -> None:
        await cluster.start()
        members = [machine.member for machine in cluster.machines.values() if machine.member]
        broker = next(iter(cluster.brokers.values()))
        # Each voter sends the leader its directory id when it has found it.
        while (await ask(cluster, broker, PORT, update(validate_only=True))).error_code != ErrorCode.NONE:
            await asyncio.sleep(0.1)
        assert {member.quorum.kraft_version for member in members} == {0}
        assert (await ask(cluster, broker, PORT, update())).error_code == ErrorCode.NONE
        while {member.quorum.kraft_version for member in members} != {1}:
            await asyncio.sleep(0.01)
        for member in members:
            assert {key.id: key.directory_id for key in member.voters.keys} == cluster.directory_ids
        leader_id = members[0].leader.leader_id
        assert leader_id is not None
        removed = RemoveRaftVoterRequest(
            cluster_id=cluster.cluster_id, voter_id=leader_id, voter_directory_id=cluster.directory_ids[leader_id]
        )
        answer = await ask(cluster, cluster.machines[leader_id], CONTROLLER_PORT, removed)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        while any(len(member.voters) != 2 or member.leader.leader_id in (None, leader_id) for member in members):
            await asyncio.sleep(0.01)

    run(1, Layout(controllers=3, brokers=3, is_static=True), main)


def test_the_same_seed_takes_the_same_course() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start()
        await create_topic(cluster, cluster.machines[2], "topic", 3)
        await produce(cluster, "topic")

    layout = Layout(controllers=3, brokers=3)
    assert run(7, layout, main) == run(7, layout, main)
    assert run(7, layout, main) != run(8, layout, main)


def test_a_broker_starts_again_although_it_lost_the_metadata_that_it_had_not_flushed() -> None:
    """Observers do not flush; neither a checkpoint nor a snapshot may promise more than is on stable storage."""

    async def main(cluster: Cluster) -> None:
        await cluster.start()
        broker = cluster.machines[2]
        for number in range(4):
            await create_topic(cluster, cluster.machines[1], f"topic-{number}", 2)
            # Time for a checkpoint of what is committed, and for a snapshot.
            await asyncio.sleep(2.5)
            await create_topic(cluster, cluster.machines[1], f"late-topic-{number}", 2)
            broker.lose_power()
            assert await broker.start(), broker.refusal

    for seed in range(3):
        layout = Layout(controllers=1, brokers=2, is_combined=False)
        run(seed, layout, main, {"metadata.log.max.record.bytes.between.snapshots": "500"})


def test_a_node_starts_again_after_a_crash_before_anything_was_committed() -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[1]
        machine.start()
        await asyncio.sleep(0.3)
        machine.kill()
        await cluster.start()

    run(1, Layout(controllers=3, brokers=1), main)


def test_a_paused_node_wakes_up_to_a_cluster_that_has_moved_on() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start()
        paused = cluster.machines[1]
        paused.pause()
        await asyncio.sleep(5)
        await create_topic(cluster, cluster.machines[2], "topic", 2)
        paused.resume()
        await create_topic(cluster, paused, "another-topic", 3)

    run(1, Layout(controllers=3, brokers=3), main, {"broker.session.timeout.ms": "2000"})


def test_a_lone_controller_does_not_wait_for_the_brokers_that_wait_for_it() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start()
        (controller,) = cluster.controllers.values()
        begun_s = cluster.world.loop.time()
        # Its brokers' fetches of the metadata are parked there, and their heartbeats continue.
        await controller.stop()
        assert cluster.world.loop.time() - begun_s < STOP_GRACE_S / 10

    run(1, Layout(controllers=1, brokers=3, is_combined=False), main)


def test_a_node_that_was_stopping_when_the_cluster_healed_is_started_again() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.start()
        some_run = Run(cluster.world, cluster.machines[1], History(Promise.REPLICATED), cluster)
        stopping = asyncio.ensure_future(cluster.machines[3].stop())
        await asyncio.sleep(0)
        assert cluster.machines[3].is_started
        assert await Healing(some_run).all_start(ClusterFaults(some_run), cluster.machines.values())
        assert stopping.done()
        assert {number: machine.incarnation for number, machine in cluster.machines.items()} == {1: 1, 2: 1, 3: 2}

    run(1, Layout(controllers=3, brokers=3), main)


async def _return_after_the_log_was_cleaned(cluster: Cluster) -> None:
    """A node that was away comes back to a quorum whose log begins behind its end: it needs a snapshot."""
    away = cluster.machines[3]
    others = [cluster.machines[1], cluster.machines[2]]
    await asyncio.gather(*(machine.start() for machine in others))
    for number in range(8):
        await create_topic(cluster, others[0], f"topic-{number}", 1)
        await asyncio.sleep(1.5)
    assert all(machine.member is not None and machine.member.log.start_offset > 0 for machine in others)
    assert await away.start()
    assert away.node is not None
    assert len(away.node.broker.image.topics) == 8


_SMALL_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "600",
    "controller.quorum.fetch.snapshot.max.bytes": "300",
}


def test_a_node_that_was_away_is_given_a_snapshot() -> None:
    run(1, Layout(controllers=3, brokers=3), _return_after_the_log_was_cleaned, _SMALL_LOG)


def test_a_snapshot_that_is_served_half_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_a_snapshot_half_written(monkeypatch)
    with pytest.raises((AssertionError, OutOfTime)):
        run(1, Layout(controllers=3, brokers=3), _return_after_the_log_was_cleaned, _SMALL_LOG)
