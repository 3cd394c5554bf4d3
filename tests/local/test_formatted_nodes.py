"""Three combined processes that were formatted as a cluster, with librdkafka as their client."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.local.local_nodes import PATIENCE_S, ThreeNodes

TOPIC = "orders"


@pytest.fixture(params=["static", "dynamic"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path, is_static=request.param == "static") as running:
        yield running


def create(nodes: ThreeNodes) -> int:
    """Its leader."""
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(PATIENCE_S)
    leader: int = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions[0].leader
    return leader


def produce(nodes: ThreeNodes, *values: str) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all"})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        producer.produce(TOPIC, value, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consume(nodes: ThreeNodes, count: int) -> list[str]:
    settings = {"bootstrap.servers": nodes.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    values: list[str] = []
    while len(values) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


def test_records_outlive_the_leader_that_took_them(nodes: ThreeNodes) -> None:
    leader = create(nodes)
    produce(nodes, "one", "two")
    assert consume(nodes, 2) == ["one", "two"]
    nodes.kill(leader)
    produce(nodes, "three")
    assert consume(nodes, 1) == ["three"]


def test_sigterm_hands_partitions_over_and_a_node_comes_back(nodes: ThreeNodes) -> None:
    leader = create(nodes)
    produce(nodes, "one")
    assert nodes.stop(leader) == 0
    produce(nodes, "two")
    nodes.start(leader)
    assert consume(nodes, 2) == ["one", "two"]
