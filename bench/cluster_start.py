"""Three combined nodes on this machine: until they are ready, until a topic is led, and until the next decision is
committed when the active controller is killed."""

import statistics
import time

import cordwood.testing
from cordwood.client.admin.topics import NewTopic
from cordwood.client.blocking.admin import Admin
from cordwood.testing.local_cluster import LocalCluster

STARTS = 3
TOPICS = 20
KILLS = 20


def main() -> None:
    starts_s: list[float] = []
    for _ in range(STARTS):
        began = time.perf_counter()
        with cordwood.testing.cluster(brokers=3):
            starts_s.append(time.perf_counter() - began)
    print(f"three nodes ready: {min(starts_s):.2f} s at best, {statistics.median(starts_s):.2f} s at the median")
    with cordwood.testing.cluster(brokers=3) as cluster:
        led_ms = sorted(_topic_led_ms(cluster) for _ in range(TOPICS))
        median_ms = statistics.median(led_ms)
        print(f"topic with three replicas led: {median_ms:.1f} ms at the median, {led_ms[-1]:.1f} ms at most")
        failovers_ms = sorted(_failover_ms(cluster) for _ in range(KILLS))
        print(
            f"next decision after the active controller is killed, {KILLS} times: "
            f"{statistics.median(failovers_ms):.0f} ms at the median, {failovers_ms[-1]:.0f} ms at most"
        )


def _topic_led_ms(cluster: LocalCluster) -> float:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        name = f"led-{time.monotonic_ns()}"
        admin.list_topics()
        began = time.perf_counter()
        admin.create_topics([NewTopic(name, partitions=1)])
        admin.until_topics_led([name])
        return (time.perf_counter() - began) * 1000


def _failover_ms(cluster: LocalCluster) -> float:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        leader = admin.describe_metadata_quorum().leader
    others = ",".join(address for node_id, address in cluster.brokers.items() if node_id != leader)
    with Admin(bootstrap_servers=others) as admin:
        admin.list_topics()
        cluster.kill(leader)
        began = time.perf_counter()
        admin.create_topics([NewTopic(f"decided-{time.monotonic_ns()}", partitions=1, replication_factor=1)])
        took_ms = (time.perf_counter() - began) * 1000
    cluster.restart(leader)
    return took_ms


if __name__ == "__main__":
    main()
