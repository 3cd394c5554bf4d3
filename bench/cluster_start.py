"""Three combined nodes, Cordwood's and with --kafka Apache Kafka's, from the same server.properties: until all are
ready, until a topic with three replicas is led, and until the next decision is committed when the active controller is
killed.

    PYTHONPATH=tools python -m bench.cluster_start [--kafka DIRECTORY] [--starts N] [--topics N] [--kills N]

DIRECTORY has Kafka's jars in `lib` (`tools/fetch_kafka.py` gets them). Nodes are formatted before the clock starts, and
ready when each of them names all three as brokers that are not fenced. `cordwood up --brokers 3`, whose processes are
forked from one, is measured too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cordwood.testing
from bench.nodes.brokers import compile_modules
from bench.nodes.wire_client import WireClient
from chaos.cluster import NODE_IDS, ChaosCluster, until
from chaos.network import Loopback
from cordwood.client.admin.topics import NewTopic
from cordwood.client.blocking.admin import Admin

STARTS = 3
TOPICS = 20
KILLS = 20
# The timeout of Kafka's controller: each of its nodes takes some 10 s to come back.
KAFKA_KILLS = 5
_POLL_S = 0.005
_PATIENCE_S = 120.0


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench.cluster_start", description=__doc__)
    parser.add_argument("--kafka", type=Path, help="a directory with Kafka's jars in lib")
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--kills", type=int, default=KILLS)
    options = parser.parse_args(arguments)
    compile_modules()
    supervised_s = [_supervised_start_s() for _ in range(options.starts)]
    print(f"cordwood up --brokers 3: {_figures(supervised_s, 's', 2)} until ready", flush=True)
    _measure("Cordwood", None, options, options.kills)
    if options.kafka is not None:
        _measure("Kafka", options.kafka, options, min(KAFKA_KILLS, options.kills))


def _measure(name: str, kafka: Path | None, options: argparse.Namespace, kills: int) -> None:
    starts_s: list[float] = []
    for _ in range(options.starts):
        with _new_cluster(kafka) as cluster:
            starts_s.append(_start_s(cluster))
    print(f"{name}, three processes: {_figures(starts_s, 's', 2)} until ready", flush=True)
    with _new_cluster(kafka) as cluster:
        _start_s(cluster)
        led_ms = [_topic_led_ms(cluster, f"led-{number}") for number in range(options.topics)]
        print(f"{name}, a topic with three replicas: {_figures(led_ms, 'ms', 1)} until led", flush=True)
        failovers_ms = [_failover_ms(cluster, f"decided-{number}") for number in range(kills)]
        print(
            f"{name}, active controller killed {kills} times: {_figures(failovers_ms, 'ms', 0)} until the next "
            "decision is committed",
            flush=True,
        )


@contextmanager
def _new_cluster(kafka: Path | None) -> Iterator[ChaosCluster]:
    with tempfile.TemporaryDirectory(prefix="quorum-") as folder:
        cluster = ChaosCluster(Path(folder), Loopback(NODE_IDS), kafka=kafka)
        try:
            yield cluster
        finally:
            cluster.close()


def _figures(values: Sequence[float], unit: str, digits: int) -> str:
    median, most = statistics.median(values), max(values)
    return f"{median:.{digits}f} {unit} at the median, {most:.{digits}f} {unit} at most"


# Starts


def _supervised_start_s() -> float:
    began = time.perf_counter()
    with cordwood.testing.cluster(brokers=3):
        return time.perf_counter() - began


def _start_s(cluster: ChaosCluster) -> float:
    began = time.perf_counter()
    for node in cluster.nodes.values():
        node.start()
    for node in cluster.nodes.values():
        while not _knows_all((node.place.host, node.place.port), len(cluster.nodes)):
            if node.has_ended_on_its_own or time.perf_counter() - began > _PATIENCE_S:
                raise RuntimeError(f"node {node.id} is not ready: {node.output[-2000:]}")
            time.sleep(_POLL_S)
    return time.perf_counter() - began


def _knows_all(address: tuple[str, int], nodes: int) -> bool:
    try:
        with WireClient(address) as client:
            return client.brokers() == nodes
    except OSError:
        return False


# Decisions


def _topic_led_ms(cluster: ChaosCluster, name: str) -> float:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.list_topics()
        began = time.perf_counter()
        admin.create_topics([NewTopic(name, partitions=1, replication_factor=3)])
        admin.until_topics_led([name])
        return (time.perf_counter() - began) * 1000


def _failover_ms(cluster: ChaosCluster, name: str) -> float:
    """The client's connections to the other nodes are open, and know them all."""
    active = cluster.nodes[cluster.controller()]
    others = ",".join(node.address for node in cluster.nodes.values() if node is not active)
    with Admin(bootstrap_servers=others) as admin:
        admin.list_topics()
        active.kill()
        began = time.perf_counter()
        admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)])
        took_ms = (time.perf_counter() - began) * 1000
    active.start()
    until(lambda: _are_ready(cluster), f"node {active.id} is back")
    cluster.await_in_sync()
    return took_ms


def _are_ready(cluster: ChaosCluster) -> bool:
    return all(_knows_all((node.place.host, node.place.port), len(cluster.nodes)) for node in cluster.nodes.values())


if __name__ == "__main__":
    main(sys.argv[1:])
