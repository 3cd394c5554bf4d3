"""Controllers and brokers of both kinds under one metadata quorum."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.interop.mixed_cluster import HOST, Kind, MixedCluster, StartCluster
from tests.interop.replica_files import assert_equal_replicas, end_offset
from tests.interop.waiting import until

METADATA = "__cluster_metadata-0"
_SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "4096",
    "metadata.max.idle.interval.ms": "500",
}


def admin(cluster: MixedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(cluster: MixedCluster, name: str, partitions: int = 3, factor: int = 1) -> None:
    client = admin(cluster)
    created = client.create_topics([NewTopic(name, partitions, factor)], operation_timeout=30)
    created[name].result(60)


def has_created(cluster: MixedCluster, name: str) -> bool:
    """Creates a topic, also where an earlier try was answered with an error and carried out all the same."""
    try:
        create(cluster, name)
    except KafkaException as failed:
        if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return True


def has_topics(cluster: MixedCluster, node_id: int, names: set[str]) -> bool:
    client = AdminClient({"bootstrap.servers": f"{HOST}:{cluster.nodes[node_id].port}", "log_level": 0})
    return names <= set(client.list_topics(timeout=10).topics)


def quorum_leader(cluster: MixedCluster) -> int:
    status = cluster.tool(
        "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", cluster.bootstrap, "describe", "--status"
    )
    found = re.search(r"LeaderId:\s+(\d+)", status)
    assert found is not None, status
    return int(found[1])


def alter(cluster: MixedCluster, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = admin(cluster)
    for altered in client.incremental_alter_configs([resource]).values():
        altered.result(60)


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_a_mixed_quorum_survives_each_of_its_leaders(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, settings=_SMALL_SNAPSHOTS)
    made = {"first"}
    create(cluster, "first", factor=3)
    led_by: list[Kind] = []
    for number in range(3):
        leader = quorum_leader(cluster)
        led_by.append(cluster.nodes[leader].kind)
        cluster.kill(leader)
        name = f"without-{leader}-{number}"
        until(has_created, cluster, name)
        made.add(name)
        alter(cluster, name, "retention.ms", "100000")
        cluster.start(leader)
    for node_id in cluster.nodes:
        until(has_topics, cluster, node_id, made)
    replication = cluster.tool(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "--bootstrap-server", cluster.bootstrap, "describe", "--replication",
    )  # fmt: skip
    assert replication.count("Follower") == 2, replication
    for node_id in cluster.nodes:
        cluster.stop(node_id)
    logs = [node.data / METADATA for node in cluster.nodes.values()]
    assert assert_equal_replicas(logs, below=min(map(end_offset, logs))) > 0
    for node in cluster.nodes.values():
        if node.kind is Kind.CORDWOOD:
            _assert_kafka_decodes(cluster, node.id)


def _assert_kafka_decodes(cluster: MixedCluster, node_id: int) -> None:
    directory = cluster.nodes[node_id].data / METADATA
    files = sorted(directory.glob("*.log")) + sorted(directory.glob("*.checkpoint"))
    decoded = cluster.tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(map(str, files))
    )
    assert "TOPIC_RECORD" in decoded
    assert "Could not" not in decoded


@pytest.mark.parametrize(("controller", "brokers"), [("K", "CC"), ("C", "KK")])
def test_brokers_of_one_kind_serve_under_a_controller_of_the_other(
    start_cluster: StartCluster, controller: str, brokers: str
) -> None:
    cluster = start_cluster(controller + brokers, roles={1: "controller", 2: "broker", 3: "broker"})
    create(cluster, "orders", 4, 2)
    alter(cluster, "orders", "retention.ms", "86400000")
    for node_id in (2, 3):
        until(has_topics, cluster, node_id, {"orders"})
    cluster.stop(2)
    cluster.start(2)
    create(cluster, "more", 2, 2)
    described = cluster.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "more"
    )
    assert described.count("Isr: ") == 2
