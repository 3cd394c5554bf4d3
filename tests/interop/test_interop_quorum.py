"""Controllers of both kinds in one metadata quorum."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.cluster_state import (
    alter,
    assert_metadata_logs_equal,
    config_at,
    create,
    has_created,
    has_topics,
    quorum,
    quorum_leader,
)
from tests.interop.kafka_shell import shell
from tests.interop.mixed_cluster import Kind, MixedCluster, StartCluster
from tests.interop.replica_files import end_offset, start_offset
from tests.interop.waiting import until

_SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "4096",
    "metadata.max.idle.interval.ms": "500",
}
_RETENTION = "retention.ms"
_KIND = {"K": Kind.KAFKA, "C": Kind.CORDWOOD}
_BOTH_WAYS = {(Kind.KAFKA, Kind.CORDWOOD), (Kind.CORDWOOD, Kind.KAFKA)}
# Elections that it may take, where nodes are too slow for their timeouts.
_ROUNDS = 6


def has_config(cluster: MixedCluster, node_id: int, topic: str, value: str) -> bool:
    return config_at(cluster, node_id, topic, _RETENTION) == value


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_a_mixed_quorum_elects_leaders_of_both_kinds(start_cluster: StartCluster, kinds: str, is_static: bool) -> None:
    cluster = start_cluster(kinds, settings=_SMALL_SNAPSHOTS, is_static=is_static)
    made = {"first": "86400000"}
    create(cluster, "first", factor=3)
    alter(cluster, "first", _RETENTION, made["first"])
    successions: set[tuple[Kind, Kind]] = set()
    for _ in range(_ROUNDS):
        if successions >= _BOTH_WAYS:
            break
        before = quorum_leader(cluster)
        # The third node is the only one of its kind: it has to succeed either of the others.
        after = _depose(cluster, before, successor=None if before == 3 else 3)
        successions.add((cluster.nodes[before].kind, cluster.nodes[after].kind))
        name = f"topic-{len(made)}"
        until(has_created, cluster, name)
        made[name] = str(100_000 + len(made))
        alter(cluster, name, _RETENTION, made[name])
        cluster.start(before)
    assert successions >= _BOTH_WAYS
    for node_id in cluster.nodes:
        until(has_topics, cluster, node_id, set(made))
        for topic, value in made.items():
            until(has_config, cluster, node_id, topic, value)
    replication = cluster.kafka(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "--bootstrap-server", cluster.bootstrap, "describe", "--replication",
    )  # fmt: skip
    assert replication.count("Follower") == 2, replication
    assert_metadata_logs_equal(cluster)
    for node in cluster.nodes.values():
        _assert_kafka_decodes(cluster, node.metadata)


def _depose(cluster: MixedCluster, leader: int, successor: int | None) -> int:
    """Kills the quorum's leader, and returns the next one. A successor is the only one with the newest records: the
    other node stalls until it lacks some."""
    paused = [node for node in cluster.nodes.values() if successor is not None and node.id not in (leader, successor)]
    for node in paused:
        cluster.pause(node.id)
    if successor is not None:
        (behind,) = paused
        # More than the response of the fetch that it sent last, which it will find when it continues.
        target = end_offset(behind.metadata) + 5
        until(lambda: end_offset(cluster.nodes[successor].metadata) >= target)
    cluster.kill(leader)
    for node in paused:
        cluster.resume(node.id)
    until(lambda: quorum(cluster).leader not in (leader, -1))
    return quorum(cluster).leader


def _assert_kafka_decodes(cluster: MixedCluster, directory: Path) -> None:
    files = sorted(directory.glob("*.log")) + sorted(directory.glob("*.checkpoint"))
    decoded = cluster.kafka(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(map(str, files))
    )
    assert "TOPIC_RECORD" in decoded
    assert "Could not" not in decoded


@pytest.mark.parametrize(("leader", "joining"), [("K", Kind.CORDWOOD), ("C", Kind.KAFKA)], ids=["K-to-C", "C-to-K"])
def test_a_node_catches_up_from_a_snapshot_of_the_other_kind(
    start_cluster: StartCluster, leader: str, joining: Kind
) -> None:
    settings = {**_SMALL_SNAPSHOTS, "metadata.max.retention.ms": "1000", "metadata.log.segment.ms": "2000"}
    cluster = start_cluster(leader, settings=settings)
    first = cluster.nodes[1]
    create(cluster, "orders")
    written = 0

    def has_cleaned() -> bool:
        """Writes until the log's beginning is gone: two snapshots have to be there when its cleaning comes round."""
        nonlocal written
        written += 1
        alter(cluster, "orders", _RETENTION, str(100_000 + written))
        return start_offset(first.metadata) > 0

    until(has_cleaned, timeout_s=300)
    second = cluster.add(2, joining)
    cluster.start(2)
    for node_id in cluster.nodes:
        until(has_topics, cluster, node_id, {"orders"})
        until(has_config, cluster, node_id, "orders", str(100_000 + written))
    # It has never had what is only in the snapshot.
    assert start_offset(second.metadata) > 0
    assert any(second.metadata.glob("*.checkpoint"))
    cluster.cordwood("quorum", "add", "-b", cluster.bootstrap, second.voter)
    until(lambda: {voter.id for voter in quorum(cluster).voters} == {1, 2})
    create(cluster, "after", factor=2)
    assert_metadata_logs_equal(cluster)


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_nodes_start_from_directories_that_cordwood_formatted(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, format_with=Kind.CORDWOOD, settings=_SMALL_SNAPSHOTS)
    create(cluster, "orders", factor=3)
    assert_metadata_logs_equal(cluster)
    # And from what the other kind has written there.
    # Kafka's nodes first, since they do not stop without a majority of the controllers.
    for node in sorted(cluster.nodes.values(), key=lambda node: node.kind is Kind.CORDWOOD):
        cluster.stop(node.id)
        node.kind = Kind.CORDWOOD if node.kind is Kind.KAFKA else Kind.KAFKA
    cluster.start()
    for node_id in cluster.nodes:
        until(has_topics, cluster, node_id, {"orders"})
    create(cluster, "more", factor=3)
    assert_metadata_logs_equal(cluster)


# Metadata transactions came with 3.6-IV1.
@pytest.mark.parametrize("release", ["3.4", "3.6-IV0", "3.6-IV1", "4.3"])
def test_a_cluster_of_any_release_begins_with_the_same_records(start_cluster: StartCluster, release: str) -> None:
    begun = [
        _first_records(start_cluster(kind, release=release, is_static=True, format_with=_KIND[kind]))
        for kind in ("K", "C")
    ]
    assert begun[0] == begun[1]
    assert ("BEGIN_TRANSACTION_RECORD" in begun[0]) == (release in ("3.6-IV1", "4.3"))


def _first_records(cluster: MixedCluster) -> list[str]:
    """The kinds of the records that the first controller wrote before any node registered, as Kafka's tool names
    them."""
    log = cluster.nodes[1].metadata / f"{0:020}.log"
    decoded = cluster.kafka("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log))
    kinds = re.findall(r'"type":"(\w+)"', decoded)
    return kinds[: next(index for index, kind in enumerate(kinds) if kind.startswith(("REGISTER", "NO_OP")))]


def test_kafkas_shell_reads_cordwoods_log_and_snapshot(start_cluster: StartCluster) -> None:
    cluster = start_cluster("C", settings=_SMALL_SNAPSHOTS)
    metadata = cluster.nodes[1].metadata

    def has_snapshot() -> bool:
        create(cluster, f"topic-{len(topics)}", 20)
        topics.append(f"topic-{len(topics)}")
        return any(path for path in metadata.glob("*.checkpoint") if int(path.stem.partition("-")[0]) > 0)

    topics: list[str] = []
    until(has_snapshot)
    create(cluster, "last")
    cluster.stop(1)
    # It runs a command as soon as it has begun to read.
    until(lambda: "last" in shell(metadata / f"{0:020}.log", "ls", "/image/topics/byName").split())
    newest = max(metadata.glob("*.checkpoint"))
    until(lambda: topics[0] in shell(newest, "ls", "/image/topics/byName").split())
    assert "last" not in shell(newest, "ls", "/image/topics/byName").split()
