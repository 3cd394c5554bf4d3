"""A node whose groups may have short timeouts, and groups of processes on it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.foreign_clients.clients_fixtures import KAFKA, start_nodes
from tests.foreign_clients.group_under_test import Feed, Group
from tests.foreign_clients.kafka_client import Address
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

# Where Kafka stands in for the node, it has to be started with these.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="session")
def groups_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Settings of the node that tests of groups and transactions share."""
    if KAFKA is not None:
        yield Address(KAFKA)
        return
    nodes = start_nodes(tmp_path_factory.mktemp("groups-node"), SETTINGS)
    yield Address(nodes.bootstrap)
    nodes.kill()


@pytest.fixture
def groups_admin(connect: Callable[[str, Address], LibrdkafkaClient], groups_address: Address) -> LibrdkafkaClient:
    return connect("librdkafka", groups_address)


@pytest.fixture
def feed(groups_admin: LibrdkafkaClient, groups_address: Address, topic: str) -> Callable[[int], Feed]:
    """Creates the topic with so many partitions, and what writes to it."""

    def created(partitions: int) -> Feed:
        groups_admin.create_topic(topic, partitions)
        return Feed(groups_address, topic, partitions)

    return created


@pytest.fixture
def group(groups_address: Address, topic: str, tmp_path: Path) -> Iterator[Group]:
    """Without members yet; it works on `topic`."""
    group = Group(groups_address, f"g-{topic}", topic, tmp_path)
    yield group
    group.close()
