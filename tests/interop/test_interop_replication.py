"""Replicas of the same partitions on nodes of both kinds: leaders on either side, failover both ways under load."""

from __future__ import annotations

import pytest

from tests.interop.cluster_state import (
    assert_metadata_logs_equal,
    assert_replicas_equal,
    await_in_sync,
    elect_preferred,
    partitions_of,
    reassign,
)
from tests.interop.mixed_cluster import Kind, StartCluster
from tests.interop.mixed_workload import ORDERS, TOPICS, Workload

_FASTER = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_failover_both_ways_loses_nothing(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, settings=_FASTER)
    successions: set[tuple[Kind, Kind]] = set()
    with Workload(cluster) as workload:
        for end in (cluster.kill, cluster.stop):
            for node_id in cluster.nodes:
                elect_preferred(cluster, cluster.nodes[node_id].kind)
                before = partitions_of(cluster)
                end(node_id)
                workload.goes_on()
                for partition, state in partitions_of(cluster).items():
                    if before[partition].leader == node_id and state.leader not in (-1, node_id):
                        successions.add((cluster.nodes[node_id].kind, cluster.nodes[state.leader].kind))
                cluster.start(node_id)
                await_in_sync(cluster)
        assert {(Kind.KAFKA, Kind.CORDWOOD), (Kind.CORDWOOD, Kind.KAFKA)} <= successions
        assert assert_replicas_equal(cluster) > 0
        workload.finish()
    workload.verify()
    assert assert_replicas_equal(cluster) > 0
    assert_metadata_logs_equal(cluster)


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_topics_move_between_kinds_under_load(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, settings={"min.insync.replicas": "1"})
    with Workload(cluster, factor=1) as workload:
        for target in (1, 3, 1, 3):
            tool = cluster.nodes[target].kind
            reassign(cluster, [target], tool, TOPICS)
            workload.goes_on()
            reassign(cluster, [2], tool, [ORDERS])
            workload.goes_on()
        workload.finish()
    workload.verify()
