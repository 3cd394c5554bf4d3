"""Real nodes under real faults, with librdkafka and our client writing and reading: nothing is lost, written twice,
reordered or left out, and all replicas have the same bytes in the end.

`make chaos` does the same for longer, at random, with transactions, and with faults of links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.cluster import NODE_IDS, ChaosCluster, Node, until
from chaos.faults import FAULTS, Fault, Scene
from chaos.network import Loopback
from chaos.run import Load, LoadPlan, Run
from cordwood import Admin

PLAN = LoadPlan(per_second=300, transformers=0, members=1)
# The duration of most faults: longer than a session of these brokers.
HOLD_S = 3.0
SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
    # A directory fails when it is written to.
    "log.flush.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    # No fault is got over by waiting for this.
    "replica.lag.time.max.ms": "600000",
}
RACKS = {1: "a", 2: "b", 3: "c", 4: "b", 5: "a"}
BY_NAME = {fault.name: fault for fault in FAULTS}

StartRun = Callable[[ChaosCluster], Run]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    """Three nodes that the tests of this module share."""
    cluster = ChaosCluster(tmp_path_factory.mktemp("cluster"), Loopback(NODE_IDS), settings=SETTINGS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def start_run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartRun]:
    runs: list[Run] = []

    def start(cluster: ChaosCluster) -> Run:
        cluster.heal()
        cluster.await_in_sync()
        prefix = f"{len(request.node.name)}-{abs(hash(request.node.name))}-"
        load = Load(cluster.bootstrap, tmp_path, 0, PLAN, prefix)
        run = Run(cluster, load, Scene(cluster, Random(request.node.name), load.topics, HOLD_S))
        runs.append(run)
        load.start()
        return run

    yield start
    for run in runs:
        for node in run.cluster.nodes.values():
            # Is shown with a test that fails.
            print(f"node {node.id}:\n{node.output[-20_000:]}")
            assert "Traceback" not in node.output


@pytest.mark.parametrize(
    "name",
    [
        "node killed",
        "active controller killed",
        "all nodes killed, started at once",
        "node paused",
        "both disks wiped",
        "rolling restart",
        "reassignment, with a kill",
    ],
)
def test_nothing_is_lost(name: str, cluster: ChaosCluster, start_run: StartRun) -> None:
    run = start_run(cluster)
    run.strike(BY_NAME[name])
    assert run.judge() == []


def test_a_failed_disk_takes_only_its_own_partitions_offline(cluster: ChaosCluster, start_run: StartRun) -> None:
    def fail_disk(scene: Scene) -> str:
        victim = scene.any_node()
        failing, healthy = victim.disks
        gone = failing.rename(failing.with_name("gone"))
        failing.touch()
        until(lambda: led_by(scene, victim) <= partitions_on(healthy, scene), "others lead what was on the failed disk")
        # It keeps the partitions of its other disk, and nothing waits for those of the failed one.
        assert led_by(scene, victim)
        run.load.await_progress()
        victim.stop()
        failing.unlink()
        gone.rename(failing)
        victim.start()
        return f"node {victim.id}"

    run = start_run(cluster)
    run.strike(Fault("failed disk", fail_disk))
    assert run.judge() == []


def led_by(scene: Scene, node: Node) -> set[str]:
    with Admin(bootstrap_servers=scene.cluster.bootstrap) as admin:
        topics = admin.list_topics()
    return {
        f"{name}-{partition.index}"
        for name, topic in topics.items()
        if name in scene.topics
        for partition in topic.partitions
        if partition.leader == node.id
    }


def partitions_on(disk: Path, scene: Scene) -> set[str]:
    return {path.name for path in disk.iterdir() if path.name.rpartition("-")[0] in scene.topics}


def test_the_loss_of_a_rack_loses_nothing(tmp_path: Path, start_run: StartRun) -> None:
    racks = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    folder = tmp_path / "racks"
    cluster = ChaosCluster(folder, Loopback(RACKS), settings=SETTINGS, node_settings=racks, node_ids=tuple(RACKS))

    def lose_rack(scene: Scene) -> str:
        rack = scene.random.choice("ab")
        victims = [node for node in scene.cluster.nodes.values() if RACKS[node.id] == rack]
        for victim in victims:
            victim.kill()
        scene.hold()
        for victim in victims:
            victim.start()
        return f"rack {rack}"

    try:
        cluster.start()
        run = start_run(cluster)
        run.strike(Fault("rack lost", lose_rack))
        assert run.judge() == []
    finally:
        cluster.close()
