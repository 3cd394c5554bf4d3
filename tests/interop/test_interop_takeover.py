"""A cluster changes hands while it is written to and read from: all of its nodes are Kafka's, then all Cordwood's, and
back. docs/migrate-from-kafka.md describes both ways for people."""

from __future__ import annotations

from cordwood.wire.primitives import uuid_text
from tests.interop.cluster_state import (
    assert_metadata_logs_equal,
    assert_replicas_equal,
    await_in_sync,
    elect_preferred,
    leading_kinds,
    partitions_of,
    quorum,
    quorum_leader,
    reassign,
    voters,
)
from tests.interop.mixed_cluster import Kind, MixedCluster, MixedNode, StartCluster
from tests.interop.mixed_workload import Workload
from tests.interop.waiting import until

_SETTINGS = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "metadata.max.idle.interval.ms": "500",
}


def test_a_kafka_cluster_is_taken_over_by_other_nodes_and_back(start_cluster: StartCluster) -> None:
    cluster = start_cluster("KKK", settings=_SETTINGS)
    with Workload(cluster) as workload:
        _hand_over(cluster, workload, [1, 2, 3], [4, 5, 6], Kind.CORDWOOD)
        assert leading_kinds(cluster) == {Kind.CORDWOOD}
        _hand_over(cluster, workload, [4, 5, 6], [1, 2, 3], Kind.KAFKA)
        assert leading_kinds(cluster) == {Kind.KAFKA}
        workload.finish()
    print(f"Longest pauses: {workload.longest_pauses_s}")
    workload.verify()
    assert_replicas_equal(cluster)


def _hand_over(cluster: MixedCluster, workload: Workload, old: list[int], new: list[int], kind: Kind) -> None:
    for node_id in new:
        cluster.add(node_id, kind)
    cluster.start(*new)
    workload.goes_on()

    # Replicas on both sides, leaders too.
    reassign(cluster, [old[0], new[0], new[1]], kind)
    elect_preferred(cluster, kind)
    until(lambda: leading_kinds(cluster) == set(Kind))
    workload.goes_on()
    assert assert_replicas_equal(cluster) > 0

    reassign(cluster, new, kind)
    workload.goes_on()
    assert assert_replicas_equal(cluster) > 0

    for joining, leaving in zip(new, old, strict=True):
        _add_voter(cluster, joining, kind)
        workload.goes_on()
        assert_metadata_logs_equal(cluster)
        # Stopped first: an old node's file doesn't name the new controllers, so one that was removed while it led could
        # not find its successor.
        left = cluster.retire(leaving)
        _remove_voter(cluster, left, kind)
        _unregister(cluster, leaving, kind)
        workload.goes_on()
    assert voters(cluster) == set(new)
    assert quorum_leader(cluster) in new
    assert_metadata_logs_equal(cluster)
    assert assert_replicas_equal(cluster) > 0


def _add_voter(cluster: MixedCluster, node_id: int, tool: Kind) -> None:
    """The controller of a node that follows as an observer becomes a voter."""
    node = cluster.nodes[node_id]
    until(lambda: node.directory_id in {uuid_text(observer.directory_id) for observer in quorum(cluster).observers})
    if tool is Kind.KAFKA:
        cluster.kafka(
            "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", cluster.bootstrap,
            "--command-config", str(node.properties), "add-controller",
        )  # fmt: skip
    else:
        cluster.cordwood("quorum", "add", "-b", cluster.bootstrap, node.voter)
    until(lambda: node_id in voters(cluster))


def _remove_voter(cluster: MixedCluster, node: MixedNode, tool: Kind) -> None:
    if tool is Kind.KAFKA:
        cluster.kafka(
            "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", cluster.bootstrap,
            "remove-controller", "--controller-id", str(node.id), "--controller-directory-id", node.directory_id,
        )  # fmt: skip
    else:
        cluster.cordwood("quorum", "remove", "-b", cluster.bootstrap, str(node.id))
    until(lambda: node.id not in voters(cluster))


def _unregister(cluster: MixedCluster, node_id: int, tool: Kind) -> None:
    if tool is Kind.KAFKA:
        cluster.kafka(
            "org.apache.kafka.tools.ClusterTool", "unregister", "--bootstrap-server", cluster.bootstrap,
            "--id", str(node_id),
        )  # fmt: skip
    else:
        cluster.cordwood("broker", "unregister", "-b", cluster.bootstrap, str(node_id), "--yes")


def test_the_nodes_of_a_kafka_cluster_are_replaced_in_place_and_back(start_cluster: StartCluster) -> None:
    cluster = start_cluster("KKK", settings=_SETTINGS)
    with Workload(cluster) as workload:
        for kind in (Kind.CORDWOOD, Kind.KAFKA):
            for node in cluster.nodes.values():
                cluster.stop(node.id)
                workload.goes_on()
                node.kind = kind
                cluster.start(node.id)
                await_in_sync(cluster)
                workload.goes_on()
                assert assert_replicas_equal(cluster) > 0
                assert_metadata_logs_equal(cluster)
            assert leading_kinds(cluster) == {kind}
            assert all(len(state.replicas) == 3 for state in partitions_of(cluster).values())
        workload.finish()
    print(f"Longest pauses: {workload.longest_pauses_s}")
    workload.verify()
    assert_replicas_equal(cluster)
