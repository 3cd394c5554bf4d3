"""The CPU time of a decision of the controller, on one node and on three: topics are created one by one, and many at
once.

The node that is asked is the active controller. The others of three replicate the decision, each with an fsync, and
apply it. With --before an earlier commit's node is measured in the same run, from a checkout with its modules compiled.

    python -m bench.decisions [--before CHECKOUT]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import cordwood.testing
from bench.nodes.brokers import Cordwood, compile_modules
from bench.nodes.processes import as_installed, cpu_s
from cordwood.client.blocking.admin import Admin
from cordwood.net.peers.channel import Channel
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.local_cluster import LocalCluster
from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

DECISIONS = 1_000
TURNS = 3
IN_FLIGHT = (1, 50)
_VERSION = 7


@dataclass(frozen=True, slots=True)
class Subject:
    """The nodes that decide. `active` is the active controller's id; pids are by node."""

    address: str
    active: int
    pids: Mapping[int, int]


class Earlier(Cordwood):
    """A node of an earlier commit."""

    name = "earlier"

    def __init__(self, checkout: Path, folder: Path) -> None:
        super().__init__(folder)
        self._checkout = checkout.absolute()

    def _environment(self) -> dict[str, str]:
        return as_installed() | {"PYTHONPATH": str(self._checkout / "src")}

    def _prepare(self) -> None:
        command = [sys.executable, "-m", "compileall", "-q", str(self._checkout / "src")]
        subprocess.run(command, check=True, env=self._environment())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench.decisions", description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of the commit to compare with")
    options = parser.parse_args(arguments)
    compile_modules()
    with ExitStack() as stack:
        subjects: dict[str, Callable[[], Subject]] = {}
        if options.before is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="decisions-"))
            earlier = Earlier(options.before, Path(folder))
            earlier.start()
            stack.callback(earlier.stop)
            subjects["one node before"] = lambda: Subject(earlier.bootstrap, 1, {1: earlier.pid})
        for name, brokers in (("one node", 1), ("three nodes", 3)):
            cluster = stack.enter_context(cordwood.testing.cluster(brokers=brokers))
            subjects[name] = lambda cluster=cluster: _subject(cluster)  # type: ignore[misc]
        for in_flight in IN_FLIGHT:
            _print_costs(subjects, in_flight)


def _subject(cluster: LocalCluster) -> Subject:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        active = admin.describe_metadata_quorum().leader
    pids = {node_id: pid for node_id in cluster.brokers if (pid := cluster.pid(node_id)) is not None}
    return Subject(cluster.brokers[active], active, pids)


def _print_costs(subjects: Mapping[str, Callable[[], Subject]], in_flight: int) -> None:
    costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in subjects}
    for _ in range(TURNS):
        for name, find in subjects.items():
            costs[name].append(_decide(find(), in_flight))
    print(f"decisions, {in_flight} in flight")
    first: float | None = None
    for name, measured in costs.items():
        controller, everyone, took = (statistics.median(each) for each in zip(*measured, strict=True))
        first = controller if first is None else first
        print(
            f"  {name:15} the controller's {controller * 1e6:6.0f} µs of CPU each ({controller / first:.2f}), "
            f"all nodes' {everyone * 1e6:6.0f} µs, {took * 1e3:6.2f} ms",
            flush=True,
        )


def _decide(subject: Subject, in_flight: int) -> tuple[float, float, float]:
    """CPU seconds of the active controller and of all nodes, and seconds that pass, for each decision."""
    before = {node_id: cpu_s(pid) for node_id, pid in subject.pids.items()}
    began = time.perf_counter()
    asyncio.run(_create(subject.address, subject.active, in_flight))
    took_s = time.perf_counter() - began
    spent = {node_id: cpu_s(pid) - before[node_id] for node_id, pid in subject.pids.items()}
    return spent[subject.active] / DECISIONS, sum(spent.values()) / DECISIONS, took_s / DECISIONS


async def _create(address: str, leader: int, in_flight: int) -> None:
    host, _, port = address.rpartition(":")
    channel = await Channel.open(SocketNetwork(), host, int(port), client_id="bench")
    slots = asyncio.Semaphore(in_flight)

    async def create(name: str) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[leader])
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment])
        async with slots:
            response = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), _VERSION)
        assert not response.topics[0].error_code, response

    prefix = time.monotonic_ns()
    await asyncio.gather(*(create(f"t{prefix}-{number}") for number in range(DECISIONS)))
    channel.close()


if __name__ == "__main__":
    main(sys.argv[1:])
