"""A leader is killed under a librdkafka producer with acks=all: the longest time without an acknowledgement.

Three combined nodes with Kafka's default timeouts, three replicas, min.insync.replicas=2, 1,000 records a second. The
victim is by turns the active controller as well and another node. Nothing may be lost, nor written twice.
"""

from __future__ import annotations

import statistics
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

import cordwood.testing
from cordwood.client.blocking.admin import Admin
from cordwood.testing.local_cluster import LocalCluster

KILLS = 20
RATE_PER_S = 1_000
BEFORE_S, AFTER_S = 1.0, 3.0
SETTINGS = {
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
}


class Acknowledgements:
    """The values that were acknowledged, the longest pause between two of them, and the failures."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.longest_s = 0.0
        self.failures: list[str] = []
        self._last = time.perf_counter()

    def begin(self) -> None:
        self._last, self.longest_s = time.perf_counter(), 0.0

    def take(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        now = time.perf_counter()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        value = message.value()
        assert value is not None
        self.values.append(value)


def main() -> None:
    gaps_ms: dict[bool, list[float]] = {False: [], True: []}
    with cordwood.testing.cluster(brokers=3, settings=SETTINGS) as cluster:
        for number in range(KILLS):
            is_controller = number % 2 == 1
            gaps_ms[is_controller].append(_gap_ms(cluster, is_controller))
    for is_controller, found in gaps_ms.items():
        who = "leader and active controller killed" if is_controller else "leader killed"
        print(
            f"{who}: next acknowledgement after {statistics.median(found):.0f} ms at the median, "
            f"{max(found):.0f} ms at most ({', '.join(f'{each:.0f}' for each in found)})"
        )
    every = [gap for found in gaps_ms.values() for gap in found]
    print(f"all: {statistics.median(every):.0f} ms at the median, {max(every):.0f} ms at most")


def _gap_ms(cluster: LocalCluster, kill_controller: bool) -> float:
    topic, leader = _topic_led_by(cluster, kill_controller)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    acknowledged = Acknowledgements()
    _produce(producer, topic, acknowledged, BEFORE_S)
    acknowledged.begin()
    cluster.kill(leader)
    _produce(producer, topic, acknowledged, AFTER_S)
    producer.flush(60)
    cluster.start(leader)
    if acknowledged.failures:
        raise RuntimeError(f"{len(acknowledged.failures)} records failed: {acknowledged.failures[0]}")
    written = _written(cluster, topic, len(acknowledged.values))
    if sorted(written) != sorted(acknowledged.values):
        raise RuntimeError(f"{len(acknowledged.values)} records were acknowledged, {len(written)} are in the log")
    return acknowledged.longest_s * 1000


def _topic_led_by(cluster: LocalCluster, controller: bool) -> tuple[str, int]:
    while True:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            active = admin.describe_metadata_quorum().leader
        topic = cluster.topic()
        leader = cluster.partition_leader(topic)
        if (leader == active) == controller:
            return topic, leader


def _produce(producer: Producer, topic: str, acknowledged: Acknowledgements, seconds: float) -> None:
    began = time.perf_counter()
    for number in range(round(seconds * RATE_PER_S)):
        while (left_s := began + number / RATE_PER_S - time.perf_counter()) > 0:
            producer.poll(left_s)
        producer.produce(topic, f"{began}-{number}".encode(), on_delivery=acknowledged.take)


def _written(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    """All records of the topic's only partition; `count` are there at least."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    written: list[bytes] = []
    try:
        while True:
            for message in consumer.consume(10_000, 1.0):
                error, value = message.error(), message.value()
                if error is None:
                    assert value is not None
                    written.append(value)
                elif error.code() == KafkaError._PARTITION_EOF and len(written) >= count:
                    return written
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
