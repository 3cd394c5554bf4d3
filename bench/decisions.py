"""The CPU time of a decision of the controller, on one node and on three: topics are created one by one, and many at
once.

The node that is asked is the active controller. The others of three replicate the decision, each with an fsync, and
apply it.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import cordwood.testing
from bench.nodes.brokers import compile_modules
from bench.nodes.processes import cpu_s
from cordwood.client.blocking.admin import Admin
from cordwood.net.peers.channel import Channel
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.local_cluster import LocalCluster
from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

DECISIONS = 1_000
TURNS = 3
IN_FLIGHT = (1, 50)
_VERSION = 7


def main() -> None:
    compile_modules()
    with cordwood.testing.cluster(brokers=1) as one, cordwood.testing.cluster(brokers=3) as three:
        for in_flight in IN_FLIGHT:
            costs: dict[str, list[tuple[float, float, float]]] = {"one node": [], "three nodes": []}
            for _ in range(TURNS):
                costs["one node"].append(_decide(one, in_flight))
                costs["three nodes"].append(_decide(three, in_flight))
            print(f"decisions, {in_flight} in flight")
            for name, measured in costs.items():
                controller, everyone, took = (statistics.median(each) for each in zip(*measured, strict=True))
                print(
                    f"  {name:12} the controller's {controller * 1e6:6.0f} µs of CPU each, "
                    f"all nodes' {everyone * 1e6:6.0f} µs, {took * 1e3:6.2f} ms"
                )


def _decide(cluster: LocalCluster, in_flight: int) -> tuple[float, float, float]:
    """CPU seconds of the active controller and of all nodes, and seconds that pass, for each decision."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        active = admin.describe_metadata_quorum().leader
    pids = {node_id: pid for node_id in cluster.brokers if (pid := cluster.pid(node_id)) is not None}
    before = {node_id: cpu_s(pid) for node_id, pid in pids.items()}
    began = time.perf_counter()
    asyncio.run(_create(cluster.brokers[active], active, in_flight))
    took_s = time.perf_counter() - began
    spent = {node_id: cpu_s(pid) - before[node_id] for node_id, pid in pids.items()}
    return spent[active] / DECISIONS, sum(spent.values()) / DECISIONS, took_s / DECISIONS


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
    main()
