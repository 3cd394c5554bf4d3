"""Large metadata in a cluster of three combined nodes: its memory, a start of all nodes, and a change that every broker
sees.

10,000 topics of one partition and one replica show what metadata costs; 5,000 partitions of three replicas are on every
node. The nodes are processes on this machine, stopped in order and started together. Their modules are loaded already.

    python -m bench.cluster_metadata [topics] [partitions]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

import cordwood.testing
from bench.nodes.brokers import compile_modules
from bench.nodes.processes import cpu_s, rss_mb
from cordwood.client.admin.topics import NewTopic
from cordwood.client.blocking.admin import Admin
from cordwood.net.peers.channel import Channel
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.local_cluster import LocalCluster
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

CHANGES = 20
_NODES = 3
_TOPICS_PER_REQUEST = 100
_PATIENCE_MS = 300_000
_CREATE_VERSION, _METADATA_VERSION = 7, 12


@dataclass(frozen=True, slots=True)
class Size:
    topics: int
    partitions: int
    replication_factor: int

    def __str__(self) -> str:
        return f"{self.topics:,} topics x {self.partitions} partitions, RF {self.replication_factor}, three nodes"


SIZES = {"topics": Size(10_000, 1, 1), "partitions": Size(50, 100, 3)}


def main(arguments: Sequence[str] = ()) -> None:
    compile_modules()
    for name, size in SIZES.items():
        if not arguments or name in arguments:
            print(size)
            with tempfile.TemporaryDirectory(prefix="metadata-") as folder:
                _measure(size, f"{folder}/data")


def _measure(size: Size, data: str) -> None:
    with cordwood.testing.cluster(brokers=_NODES, data=data) as cluster:
        print(f"  memory of a node without topics        {_memory_mb(cluster):8.0f} MB")
        created_s = _create(cluster, size)
        print(f"  created and led                        {created_s:8.2f} s")
        _print_changes(cluster)
        print(f"  memory of a node                       {_memory_mb(cluster):8.0f} MB", flush=True)
    began = time.perf_counter()
    with cordwood.testing.cluster(brokers=_NODES, data=data) as cluster:
        ready_s = time.perf_counter() - began
        _until(cluster, size, in_sync=False)
        led_s = time.perf_counter() - began
        _until(cluster, size, in_sync=True)
        in_sync_s = time.perf_counter() - began
        spent_s = sum(map(cpu_s, _pids(cluster)))
        print(f"  all nodes started, until ready         {ready_s:8.2f} s")
        print(f"  until all partitions are led           {led_s:8.2f} s")
        print(f"  until all replicas are in sync         {in_sync_s:8.2f} s")
        print(f"  CPU of all nodes until then            {spent_s:8.2f} s")
        print(f"  memory of a node after the start       {_memory_mb(cluster):8.0f} MB")
        _print_changes(cluster)


def _create(cluster: LocalCluster, size: Size) -> float:
    began = time.perf_counter()
    names = [f"t{number}" for number in range(size.topics)]
    per_request = max(1, _TOPICS_PER_REQUEST // size.partitions)
    with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=_PATIENCE_MS) as admin:
        for first in range(0, len(names), per_request):
            admin.create_topics(
                [
                    NewTopic(name, partitions=size.partitions, replication_factor=size.replication_factor)
                    for name in names[first : first + per_request]
                ]
            )
        admin.until_topics_led(names)
    return time.perf_counter() - began


def _until(cluster: LocalCluster, size: Size, *, in_sync: bool) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=_PATIENCE_MS) as admin:
        while True:
            partitions = [each for topic in admin.list_topics().values() for each in topic.partitions]
            if len(partitions) >= size.topics * size.partitions and all(
                each.leader >= 0 and (not in_sync or len(each.isr) == len(each.replicas)) for each in partitions
            ):
                return
            time.sleep(0.1)


def _memory_mb(cluster: LocalCluster) -> float:
    """Figures of the largest node."""
    return max(map(rss_mb, _pids(cluster)))


def _pids(cluster: LocalCluster) -> list[int]:
    return [pid for node_id in cluster.brokers if (pid := cluster.pid(node_id)) is not None]


# A change


def _print_changes(cluster: LocalCluster) -> None:
    took_ms = asyncio.run(_changes_ms(list(cluster.brokers.values())))
    print(
        f"  a new topic, until every broker has it {statistics.median(took_ms):8.1f} ms at the median, "
        f"{max(took_ms):.1f} ms at most"
    )


async def _changes_ms(addresses: Sequence[str]) -> list[float]:
    network = SocketNetwork()
    channels = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        channels.append(await Channel.open(network, host, int(port), client_id="bench"))
    took_ms = [await _change_ms(channels) for _ in range(CHANGES)]
    for channel in channels:
        channel.close()
    return took_ms


async def _change_ms(channels: Sequence[Channel]) -> float:
    """From the request to any of the brokers until the last one names the topic with its leader."""
    name = f"change-{time.monotonic_ns()}"
    began = time.perf_counter()
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1)
    creating = channels[0].request(CreateTopicsRequest(topics=[topic], timeout_ms=_PATIENCE_MS), _CREATE_VERSION)
    await asyncio.gather(creating, *(_until_seen(channel, name) for channel in channels[1:]))
    await _until_seen(channels[0], name)
    return (time.perf_counter() - began) * 1000


async def _until_seen(channel: Channel, name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        response = await channel.request(request, _METADATA_VERSION)
        [topic] = response.topics
        if not topic.error_code and topic.partitions and topic.partitions[0].leader_id >= 0:
            return
        await asyncio.sleep(0.001)


if __name__ == "__main__":
    main(sys.argv[1:])
