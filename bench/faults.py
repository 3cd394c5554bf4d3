"""Faults of a cluster under load: how long clients get no acknowledgement, and how long nodes take to be back.

Three combined nodes with Kafka's defaults, three replicas, min.insync.replicas=2, each node in a network namespace of
its own where the machine allows that. An idempotent librdkafka producer and one of ours write 300 records a second each
to a topic of six partitions. Every history is judged at the end, and all replicas are compared (`tools/chaos`).

    python -m bench.faults [--row NAME]... [--times N] [--kafka DIRECTORY_WITH_LIB]
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.nodes.processes import rss_mb
from chaos.cluster import NODE_IDS, ChaosCluster, Node
from chaos.confinement import confine, is_confined
from chaos.faults import FAULTS, Fault, Scene
from chaos.network import Loopback, Namespaces, Network
from chaos.run import Load, LoadPlan, Run
from cordwood import Admin, ClientError, NewTopic, Producer

PLAN = LoadPlan(per_second=300, transformers=0, members=0)
# The duration of lasting faults: longer than Kafka's session of nine seconds.
HOLD_S = 12.0
READY_TIMES = 5
# Faults come at any phase of the clients' own timers.
JITTER_S = 1.0
PROBES = "probes"
_POLL_S = 0.005
_IMPATIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 10}
_BY_NAME = {fault.name: fault for fault in FAULTS}


@dataclass(slots=True)
class Figures:
    """The values of one row, in seconds, by measurement."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def print(self, row: str) -> None:
        print(row)
        for what, values in self.values.items():
            each = ", ".join(f"{value:.2f}" for value in values)
            print(f"  {what:40} {statistics.median(values):6.2f} s at the median, {max(values):.2f} s at most ({each})")
        sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Row:
    fault: Fault
    times: int


class Measured:
    """Figures that faults measure themselves, besides the gaps of the load."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[what] = time.perf_counter() - began


def rows(measured: Measured) -> dict[str, Row]:
    def kill_leader(scene: Scene) -> str:
        return _killed_leader(scene, lambda leader, controller: leader != controller)

    def kill_leading_controller(scene: Scene) -> str:
        return _killed_leader(scene, lambda leader, controller: leader == controller)

    def kill_all(scene: Scene) -> str:
        for node in scene.cluster.nodes.values():
            node.kill()
        with measured.timing("started until a new client has written"):
            for node in scene.cluster.nodes.values():
                node.start()
            _until_written(scene)
        return "all nodes"

    def kill_and_start(scene: Scene) -> str:
        victim = scene.any_node()
        victim.kill()
        with measured.timing("started until unfenced"):
            victim.start()
            _until_unfenced(victim)
        return f"node {victim.id}"

    def stop_and_start(scene: Scene) -> str:
        victim = scene.any_node()
        with measured.timing("controlled shutdown"):
            victim.stop()
        with measured.timing("started until unfenced"):
            victim.start()
            _until_unfenced(victim)
        return f"node {victim.id}"

    every = [
        Row(Fault("leader killed", kill_leader), 10),
        Row(Fault("leader and active controller killed", kill_leading_controller), 10),
        Row(_BY_NAME["rolling restart"], 5),
        Row(Fault("killed node started at once", kill_and_start), 10),
        Row(Fault("stopped node started at once", stop_and_start), 5),
        Row(Fault("all nodes killed, started at once", kill_all), 5),
        *(
            Row(_BY_NAME[name], 3)
            for name in (
                "node paused",
                "active controller paused",
                "link cut",
                "link cut one way",
                "node isolated",
                "active controller isolated",
            )
        ),
    ]
    return {"ready": Row(Fault("ready", lambda scene: ""), READY_TIMES)} | {row.fault.name: row for row in every}


def main(arguments: Sequence[str] = ()) -> None:
    options = _options(arguments)
    if not options.loopback and not is_confined():
        status = confine(list(arguments), "bench.faults")
        if status is not None:
            if status != 0:
                sys.exit(status)
            return
    logging.getLogger("cordwood").setLevel(logging.ERROR)
    measured = Measured()
    wanted = {name: row for name, row in rows(measured).items() if not options.row or name in options.row}
    is_on_loopback = options.loopback or not is_confined()
    network: Network = Loopback(NODE_IDS) if is_on_loopback else Namespaces(NODE_IDS)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        if wanted.pop("ready", None) is not None:
            _ready(Path(folder), network, options)
        if wanted:
            _under_load(Path(folder) / "load", network, options, wanted, measured)


def _ready(folder: Path, network: Network, options: argparse.Namespace) -> None:
    figures = Figures()
    memory: list[float] = []
    for number in range(options.times or READY_TIMES):
        cluster = ChaosCluster(folder / str(number), network, kafka=options.kafka)
        try:
            began = time.perf_counter()
            cluster.start()
            figures.values["until all nodes are ready"].append(time.perf_counter() - began)
            time.sleep(1)
            memory += [rss_mb(pid) for node in cluster.nodes.values() if (pid := node.pid) is not None]
        finally:
            cluster.close()
    figures.print("three nodes, started for the first time")
    print(f"  memory of an idle node {statistics.median(memory):.0f} MB at the median, {max(memory):.0f} MB at most")


def _under_load(
    folder: Path, network: Network, options: argparse.Namespace, wanted: dict[str, Row], measured: Measured
) -> None:
    random = Random(options.seed)
    cluster = ChaosCluster(folder, network, kafka=options.kafka)
    load = Load(cluster.bootstrap, folder / "clients", options.seed, PLAN)
    run = Run(cluster, load, Scene(cluster, random, load.topics, HOLD_S))
    try:
        cluster.start()
        load.start()
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(PROBES, partitions=1)])
        for name, row in wanted.items():
            figures = Figures()
            for _ in range(options.times or row.times):
                time.sleep(random.random() * JITTER_S)
                measured.seconds.clear()
                outcome = run.strike(row.fault)
                for library, gap in outcome.gaps.items():
                    figures.values[f"{library}, any partition"].append(gap.overall)
                    figures.values[f"{library}, worst partition"].append(gap.worst_partition)
                for what, seconds in measured.seconds.items():
                    figures.values[what].append(seconds)
                figures.values["healed until in sync"].append(outcome.in_sync_s)
            figures.print(name)
        violations = run.judge()
        records = sum(writer.history.count for writer in load.writers)
        print(f"{len(run.outcomes)} faults, {records} records acknowledged, {len(violations)} violations")
        for violation in violations:
            print(f"VIOLATION {violation}")
        if options.logs:
            for node in cluster.nodes.values():
                (options.logs / f"node-{node.id}.log").write_text(node.output)
        if violations:
            sys.exit(1)
    finally:
        load.kill()
        cluster.close()


# Faults


def _killed_leader(scene: Scene, is_wanted: Callable[[int, int], bool]) -> str:
    """Kills a node that leads some of the partitions, and starts it again when others have led them for a while."""
    victim = scene.cluster.nodes[_leader(scene, is_wanted)]
    victim.kill()
    time.sleep(3.0)
    victim.start()
    return f"node {victim.id}"


def _leader(scene: Scene, is_wanted: Callable[[int, int], bool]) -> int:
    controller = scene.cluster.controller()
    return scene.random.choice([node_id for node_id in NODE_IDS if is_wanted(node_id, controller)])


def _until_unfenced(node: Node) -> None:
    """Judged by the node itself: a node answers when it has applied its new registration."""

    def is_unfenced() -> bool:
        with Admin({"bootstrap.servers": node.address, **_IMPATIENT}) as admin:
            description = admin.describe_cluster(include_fenced=True)
        return node.id not in description.fenced and node.id in {broker.id for broker in description.brokers}

    _until(is_unfenced)


def _until_written(scene: Scene) -> None:
    """Uses a new client and a separate topic that no history covers."""

    def is_written() -> bool:
        with Producer({"bootstrap.servers": scene.cluster.bootstrap, **_IMPATIENT}) as producer:
            producer.send(PROBES, b"").result()
        return True

    _until(is_written)


def _until(is_so: Callable[[], bool]) -> None:
    while True:
        try:
            if is_so():
                return
        except ClientError:
            pass
        time.sleep(_POLL_S)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.faults", description=__doc__)
    parser.add_argument("--row", action="append", default=[], choices=list(rows(Measured())))
    parser.add_argument("--times", type=int, help="each row so often (default: a number of each row's own)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kafka", type=Path, help="a directory with Apache Kafka's jars in lib: Kafka's nodes instead")
    parser.add_argument("--loopback", action="store_true", help="no namespaces, even where they are possible")
    parser.add_argument("--logs", type=Path, help="where the nodes' logs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
