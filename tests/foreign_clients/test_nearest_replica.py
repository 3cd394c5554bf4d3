"""librdkafka reads from the replica in its rack (KIP-392), on three nodes with a rack each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import cordwood.testing
from cordwood.testing.local_cluster import LocalCluster
from tests.foreign_clients.clients_fixtures import KAFKA
from tests.foreign_clients.kafka_client import Address, Record, eventually
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

pytestmark = pytest.mark.skipif(KAFKA is not None, reason="nodes are killed")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with cordwood.testing.cluster(settings={"replica.selector.class": SELECTOR}) as cluster:
        yield cluster


class RackedConsumer:
    """With the broker from which it fetches a partition, as its statistics have it."""

    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        self.topic = topic
        self.broker = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "statistics.interval.ms": 50,
                "stats_cb": self._told,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _told(self, statistics: str) -> None:
        told: dict[str, Any] = json.loads(statistics)
        partition = told["topics"].get(self.topic, {}).get("partitions", {}).get("0")
        if partition is not None:
            self.broker = partition["broker"]

    def poll(self) -> bytes | None:
        message = self._consumer.poll(0.1)
        return None if message is None or message.error() else message.value()

    def take(self, count: int) -> list[bytes]:
        taken: list[bytes] = []

        def has_all() -> bool:
            value = self.poll()
            if value is not None:
                taken.append(value)
            return len(taken) == count

        eventually(has_all)
        return taken

    def await_broker(self, broker: int) -> None:
        def fetches_there() -> bool:
            assert self.poll() is None
            return self.broker == broker

        eventually(fetches_there)

    def seek(self, offset: int) -> None:
        self._consumer.seek(TopicPartition(self.topic, 0, offset))

    def close(self) -> None:
        self._consumer.close()


def test_librdkafka_reads_from_the_replica_in_its_rack_and_on_from_the_leader_when_that_dies(
    cluster: LocalCluster, topic: str
) -> None:
    cluster.topic(topic)
    leader = cluster.partition_leader(topic)
    nearest = leader % 3 + 1
    client = LibrdkafkaClient(Address(cluster.bootstrap))
    client.produce(topic, [Record(b"a"), Record(b"b")])
    consumer = RackedConsumer(cluster.bootstrap, topic, f"rack-{nearest}")
    try:
        assert consumer.take(2) == [b"a", b"b"]
        consumer.await_broker(nearest)
        client.produce(topic, [Record(b"c")])
        assert consumer.take(1) == [b"c"]
        # Records that are deleted at all replicas are out of range at the nearest.
        client.delete_records(topic, 2)
        consumer.seek(0)
        assert consumer.take(1) == [b"c"]
        cluster.kill(nearest)
        client.produce(topic, [Record(b"d")])
        assert consumer.take(1) == [b"d"]
        consumer.await_broker(leader)
    finally:
        consumer.close()
        cluster.restart(nearest)
