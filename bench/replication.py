"""Three nodes and topics of three replicas: what acks=all costs when followers have to have it too.

Each node leads a third of the partitions. The CPU is that of all three nodes for a million records.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.nodes import replay
from bench.nodes.brokers import compile_modules, free_ports
from bench.nodes.processes import as_installed, cpu_s
from bench.nodes.replay import Load
from bench.nodes.wire_client import WireClient
from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODES = (1, 2, 3)
PARTITIONS = 2
IN_FLIGHT = 8
RUNS = 3
START_TIMEOUT_S = 60
CREATE_TOPICS_VERSION = 5


class Cluster:
    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * len(NODES))
        self.addresses = {node: ("127.0.0.1", ports[index]) for index, node in enumerate(NODES)}
        self._controllers = {node: ports[len(NODES) + index] for index, node in enumerate(NODES)}
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def start(self) -> None:
        for node in NODES:
            file = self._folder / f"{node}.properties"
            file.write_text(self._properties(node))
            self._run("format", "--config", str(file), "--cluster-id", CLUSTER_ID).wait(START_TIMEOUT_S)
        for node in NODES:
            self._processes[node] = self._run("up", "--config", str(self._folder / f"{node}.properties"))
        deadline = time.perf_counter() + START_TIMEOUT_S
        while not all(self._is_ready(node) for node in NODES):
            if time.perf_counter() > deadline:
                raise TimeoutError(f"the nodes are not ready after {START_TIMEOUT_S} s")
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def cpu_s(self) -> float:
        return sum(cpu_s(process.pid) for process in self._processes.values())

    def create(self, name: str, leader: int) -> None:
        others = [node for node in NODES if node != leader]
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[leader, *others])
            for index in range(PARTITIONS)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        with WireClient(self.addresses[leader]) as client:
            response = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CREATE_TOPICS_VERSION)
            if response.topics[0].error_code:
                raise RuntimeError(f"topic {name}: {response.topics[0].error_message}")
            client.wait_until_led(PARTITIONS, [name])

    def _is_ready(self, node: int) -> bool:
        try:
            with WireClient(self.addresses[node]) as client:
                return client.brokers() == len(NODES)
        except OSError:
            return False

    def _run(self, *arguments: str) -> subprocess.Popen[str]:
        with (self._folder / "output").open("a") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "cordwood", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                env=as_installed(),
            )

    def _properties(self, node: int) -> str:
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self._controllers.items())
        settings = {
            "node.id": str(node),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.addresses[node][1]},"
            f"CONTROLLER://127.0.0.1:{self._controllers[node]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": str(self._folder / f"data{node}"),
            "min.insync.replicas": "2",
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def produce(cluster: Cluster, name: str, records: int, per_request: int, value_bytes: int, acks: int) -> None:
    best: tuple[float, float] | None = None
    for run in range(RUNS):
        loads = {}
        for node in NODES:
            topic = f"{name.replace(' ', '.').replace('=', '-')}-{run}-{node}"
            cluster.create(topic, node)
            requests = records // per_request // len(NODES)
            loads[node] = Load(topic, PARTITIONS, requests - requests % PARTITIONS, per_request, value_bytes, acks=acks)
        total = sum(load.records for load in loads.values())
        before, began = cluster.cpu_s, time.perf_counter()
        with ThreadPoolExecutor(len(NODES)) as pool:
            under_way = [pool.submit(replay.produce, cluster.addresses[node], loads[node], IN_FLIGHT) for node in NODES]
            for one in under_way:
                one.result()
        rate = total / (time.perf_counter() - began) / 1e6
        spent = (cluster.cpu_s - before) / total * 1e6
        if best is None or rate > best[0]:
            best = (rate, spent)
    assert best is not None
    print(f"{name:<24} {best[0]:8.2f} M/s {best[1]:8.2f} CPU s/M")


def main() -> None:
    compile_modules()
    folder = Path(tempfile.mkdtemp(prefix="cordwood-bench-"))
    cluster = Cluster(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(cluster.stop)
        cluster.start()
        produce(cluster, "100 B acks=all", 3_000_000, 1_000, 100, -1)
        produce(cluster, "100 B acks=1", 3_000_000, 1_000, 100, 1)
        produce(cluster, "1 KiB acks=all", 300_000, 500, 1_024, -1)


if __name__ == "__main__":
    main()
