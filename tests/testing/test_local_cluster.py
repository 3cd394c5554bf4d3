"""`cordwood.testing.cluster`: three processes that a test can take down one by one."""

import pytest
from confluent_kafka import Producer

import cordwood.testing
from cordwood.testing import NodeError
from cordwood.testing.local_cluster import LocalCluster

PATIENCE_S = 60.0


def produce(cluster: LocalCluster, topic: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    failures: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def test_leaders_move_when_their_broker_is_killed_and_it_comes_back() -> None:
    with cordwood.testing.cluster(brokers=3) as cluster:
        assert sorted(cluster.brokers) == [1, 2, 3]
        topic = cluster.topic()
        leader = cluster.partition_leader(topic)
        produce(cluster, topic, "before")
        cluster.kill(leader)
        assert cluster.pid(leader) is None
        assert cluster.partition_leader(topic) != leader
        produce(cluster, topic, "meanwhile")
        cluster.restart(leader)
        assert cluster.pid(leader) is not None
        produce(cluster, topic, "after")
        with pytest.raises(NodeError, match="there is no node 9: the nodes are 1, 2, 3"):
            cluster.kill(9)


def test_an_invalid_setting_is_reported() -> None:
    with (
        pytest.raises(NodeError, match=r"num\.partitions=none"),
        cordwood.testing.cluster(brokers=1, settings={"num.partitions": "none"}),
    ):
        pass


def test_it_is_used_within_with() -> None:
    with pytest.raises(NodeError, match="the cluster is not running"):
        _ = cordwood.testing.cluster().bootstrap
