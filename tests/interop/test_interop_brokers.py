"""Brokers of one kind under controllers of the other."""

from __future__ import annotations

import pytest

from tests.interop.cluster_state import (
    alter,
    assert_metadata_logs_equal,
    assert_replicas_equal,
    await_in_sync,
    config_at,
    has_created,
    has_topics,
)
from tests.interop.mixed_cluster import StartCluster
from tests.interop.mixed_workload import Workload
from tests.interop.waiting import until

_ROLES = {1: "controller", 2: "broker", 3: "broker", 4: "broker"}
_SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "8192",
}


@pytest.mark.parametrize(("controller", "brokers"), [("K", "CCC"), ("C", "KKK")], ids=["K-CCC", "C-KKK"])
def test_brokers_of_one_kind_serve_under_a_controller_of_the_other(
    start_cluster: StartCluster, controller: str, brokers: str
) -> None:
    cluster = start_cluster(controller + brokers, _ROLES, _SETTINGS)
    with Workload(cluster) as workload:
        alter(cluster, "orders", "retention.ms", "86400000")
        for node_id in (2, 3, 4):
            until(has_topics, cluster, node_id, {"orders"})
            until(lambda at: config_at(cluster, at, "orders", "retention.ms") == "86400000", node_id)
        for end in (cluster.kill, cluster.stop):
            for node_id in (2, 3, 4):
                end(node_id)
                workload.goes_on()
                cluster.start(node_id)
                await_in_sync(cluster)
        # Brokers continue without a controller, and follow it again afterwards.
        for end in (cluster.kill, cluster.stop):
            end(1)
            workload.goes_on()
            cluster.start(1)
            until(has_created, cluster, f"after-{end.__name__}")
        workload.finish()
    workload.verify()
    assert assert_replicas_equal(cluster) > 0
    assert_metadata_logs_equal(cluster)
    described = cluster.kafka(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap,
        "--describe", "--topic", "orders",
    )  # fmt: skip
    assert described.count("Isr: ") == 3
