"""Scaling on one machine: two broker processes against one under the same total load, and three nodes with many
partitions.

The first takes as many records in all, to as many partitions, whether one broker leads them or two; the cost per record
says what the second process itself costs, the rate what a second core brings. The second has three combined nodes,
replication factor 3, and empty partitions: each node has a replica of every partition.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cordwood.testing
from bench.nodes import replay
from bench.nodes.brokers import compile_modules
from bench.nodes.processes import cpu_s, rss_mb
from bench.nodes.replay import Load
from cordwood.client.admin.topics import NewTopic
from cordwood.client.blocking.admin import Admin
from cordwood.testing.local_cluster import LocalCluster

RECORDS = 4_000_000
PER_REQUEST = 1_000
VALUE_BYTES = 100
PARTITIONS = 8
IN_FLIGHT = 8
RUNS = 3
NODES = (1, 2, 3)
PARTITION_COUNTS = (1_000, 3_000)
PARTITIONS_PER_TOPIC = 100
# A cluster on a busy machine takes its time.
_PATIENCE_MS = 300_000


def main() -> None:
    compile_modules()
    for brokers in (1, 2):
        with cordwood.testing.cluster(brokers=brokers, controllers=1) as cluster:
            produce(cluster, brokers)
    for partitions in [int(text) for text in sys.argv[1:] if text.isdecimal()] or PARTITION_COUNTS:
        many_partitions(partitions)


def produce(cluster: LocalCluster, brokers: int) -> None:
    best = None
    ids = sorted(cluster.brokers)[:brokers]
    pids = [pid for pid in (cluster.pid(broker) for broker in ids) if pid is not None]
    for run in range(RUNS):
        loads = {}
        for broker in ids:
            name = f"load-{run}-{broker}"
            partitions = PARTITIONS // brokers
            with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                admin.create_topics([NewTopic(name, replicas=[[broker]] * partitions)])
                admin.until_topics_led([name])
            loads[broker] = Load(name, partitions, RECORDS // PER_REQUEST // brokers, PER_REQUEST, VALUE_BYTES)
        before, began = sum(map(cpu_s, pids)), time.perf_counter()
        with ThreadPoolExecutor(brokers) as pool:
            under_way = [
                pool.submit(replay.produce, _address(cluster.brokers[broker]), load, IN_FLIGHT)
                for broker, load in loads.items()
            ]
            for one in under_way:
                one.result()
        took_s, spent_s = time.perf_counter() - began, sum(map(cpu_s, pids)) - before
        figures = (RECORDS / took_s / 1e6, spent_s / RECORDS * 1e6)
        best = figures if best is None else max(best, figures)
    assert best is not None
    noun = "broker" if brokers == 1 else "brokers"
    print(f"{brokers} {noun}, 100 B acks=1 {best[0]:8.2f} M/s {best[1]:8.2f} CPU s/M", flush=True)


def many_partitions(partitions: int) -> None:
    # Before the processes have any: what the same nodes take without partitions.
    settings = {"group.initial.rebalance.delay.ms": 0}
    with cordwood.testing.cluster(brokers=len(NODES), settings=settings) as cluster:
        empty_mb = _rss(cluster)
        with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=_PATIENCE_MS) as admin:
            began = time.perf_counter()
            names = [f"t{number}" for number in range(partitions // PARTITIONS_PER_TOPIC)]
            for name in names:
                admin.create_topics([NewTopic(name, partitions=PARTITIONS_PER_TOPIC)])
            admin.until_topics_led(names)
            created_s = time.perf_counter() - began
            _until_in_sync(admin, names)
            full_mb = _rss(cluster)
            began = time.perf_counter()
            cpu_before = _cpu(cluster)
            time.sleep(10)
            idle = (_cpu(cluster) - cpu_before) / (time.perf_counter() - began) / len(NODES)
            [last] = NODES[-1:]
            began = time.perf_counter()
            cluster.stop(last)
            stopped_s = time.perf_counter() - began
            began = time.perf_counter()
            cluster.start(last)
            started_s = time.perf_counter() - began
            pid = cluster.pid(last)
            assert pid is not None
            start_cpu_s = cpu_s(pid)
            _until_in_sync(admin, names)
            in_sync_s = time.perf_counter() - began
    print(f"3 nodes x {partitions:,} partitions, RF 3")
    print(f"  created and led      {created_s:8.2f} s")
    print(f"  memory of a node     {full_mb:8.0f} MB")
    print(f"  without partitions   {empty_mb:8.0f} MB")
    print(f"  idle, of a core      {100 * idle:8.1f} %")
    print(f"  controlled shutdown  {stopped_s:8.2f} s")
    print(f"  start until ready    {started_s:8.2f} s")
    print(f"  start, its CPU       {start_cpu_s:8.2f} s")
    print(f"  start until in sync  {in_sync_s:8.2f} s", flush=True)


def _until_in_sync(admin: Admin, names: list[str]) -> None:
    while any(
        len(partition.isr) < len(NODES)
        for topic in admin.describe_topics(names).values()
        for partition in topic.partitions
    ):
        time.sleep(0.2)


def _rss(cluster: LocalCluster) -> float:
    """The largest of the nodes."""
    return max(rss_mb(pid) for node in NODES if (pid := cluster.pid(node)) is not None)


def _cpu(cluster: LocalCluster) -> float:
    return sum(cpu_s(pid) for node in NODES if (pid := cluster.pid(node)) is not None)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
