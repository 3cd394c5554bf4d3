"""Replicas of the same partitions on nodes of both kinds: leaders on either side, failover both ways under load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop.load import IdempotentLoad, read_all
from tests.interop.mixed_cluster import MixedCluster, StartCluster
from tests.interop.replica_files import assert_equal_replicas
from tests.interop.waiting import until

TOPIC = "orders"
PARTITIONS = 3
_FASTER = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}


def admin(cluster: MixedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(cluster: MixedCluster, factor: int = 3) -> None:
    client = admin(cluster)
    created = client.create_topics([NewTopic(TOPIC, PARTITIONS, factor)], operation_timeout=30)
    created[TOPIC].result(60)


def in_sync(cluster: MixedCluster) -> dict[int, set[int]]:
    client = admin(cluster)
    found = client.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return {index: set(partition.isrs) for index, partition in found.items()}


def await_in_sync(cluster: MixedCluster, replicas: set[int]) -> None:
    until(lambda: all(isr == replicas for isr in in_sync(cluster).values()), timeout_s=120)


def assert_nothing_lost(cluster: MixedCluster, load: IdempotentLoad) -> None:
    assert not load.failures, load.failures[:3]
    found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    for index, numbers in load.acked.items():
        assert found[index] == [f"{index}:{number}" for number in numbers]


def assert_replicas_equal(cluster: MixedCluster) -> None:
    for node_id in cluster.nodes:
        cluster.stop(node_id)
    for index in range(PARTITIONS):
        replicas = [
            node.data / f"{TOPIC}-{index}"
            for node in cluster.nodes.values()
            if (node.data / f"{TOPIC}-{index}").exists()
        ]
        assert len(replicas) > 1
        assert assert_equal_replicas(replicas) > 0


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_failover_both_ways_loses_nothing(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, settings=_FASTER)
    create(cluster)
    with IdempotentLoad(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        until(load.has, 300)
        for node_id in cluster.nodes:
            before = load.count
            cluster.kill(node_id)
            until(load.has, before + 600)
            cluster.start(node_id)
            await_in_sync(cluster, set(cluster.nodes))
    assert_nothing_lost(cluster, load)
    await_in_sync(cluster, set(cluster.nodes))
    assert_replicas_equal(cluster)


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_transactions_across_both_kinds_are_atomic(start_cluster: StartCluster, kinds: str) -> None:
    cluster = start_cluster(kinds, settings=_FASTER)
    create(cluster)
    committed: list[int] = []
    for number in range(30):
        if number in (10, 20):
            victim = number // 10
            cluster.kill(victim)
        if number in (15, 25):
            cluster.start(number // 10)
        if _transaction(cluster, number, commit=number % 3 != 2):
            committed.append(number)
    assert len(committed) >= 15
    found = read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    for index in range(PARTITIONS):
        assert [int(value) for value in found[index]] == committed
    await_in_sync(cluster, set(cluster.nodes))
    assert_replicas_equal(cluster)


def _transaction(cluster: MixedCluster, number: int, *, commit: bool) -> bool:
    """One transaction of a producer of its own, tried until it is decided. Returns whether it is committed."""
    while True:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "teller", "log_level": 0,
             "transaction.timeout.ms": 30_000}
        )  # fmt: skip
        try:
            producer.init_transactions(60)
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(TOPIC, str(number).encode(), partition=index)
            if not commit:
                producer.abort_transaction(60)
                return False
            producer.flush(60)
        except KafkaException:
            continue
        while True:
            try:
                producer.commit_transaction(60)
            except KafkaException as failed:
                error = failed.args[0]
                assert isinstance(error, KafkaError)
                if error.retriable():
                    continue
                if error.txn_requires_abort():
                    break
                raise
            return True


@pytest.mark.parametrize("kinds", ["KKC", "CCK"])
def test_a_topic_moves_between_kinds_under_load(start_cluster: StartCluster, kinds: str, tmp_path: Path) -> None:
    cluster = start_cluster(kinds, settings={"min.insync.replicas": "1"})
    create(cluster, factor=1)
    with IdempotentLoad(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        for target in (1, 3, 1, 3):
            before = load.count
            _reassign(cluster, target, tmp_path)
            await_in_sync(cluster, {target})
            until(load.has, before + 300)
    assert_nothing_lost(cluster, load)


def _reassign(cluster: MixedCluster, target: int, tmp_path: Path) -> None:
    plan = {
        "version": 1,
        "partitions": [{"topic": TOPIC, "partition": index, "replicas": [target]} for index in range(PARTITIONS)],
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    cluster.tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(path), "--execute",
    )  # fmt: skip
