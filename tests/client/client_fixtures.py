"""Fixtures of the client tests; CORDWOOD_TEST_KAFKA=host:port replaces nodes by a Kafka."""

import uuid
from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from cordwood import Admin, NewTopic, Producer
from tests.client.administering import Administer, administer_at
from tests.client.any_cluster import KAFKA, AnyCluster, any_cluster


@pytest.fixture(scope="module")
def node() -> Iterator[AnyCluster]:
    with any_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def bootstrap(node: AnyCluster) -> str:
    return node.bootstrap


@pytest.fixture
def topic() -> str:
    """The name of one that is not there yet."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    """The name of one that is not there yet."""
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def administer(bootstrap: str) -> Administer:
    return partial(administer_at, bootstrap)


@pytest.fixture
def producer(node: AnyCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=0) as producer:
        yield producer


class KafkaInstead:
    """The parts of a node that the fixture `cordwood` needs."""

    log = ""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions=partitions, configs=configs or {})])
            admin.until_topics_led([name])
        return name


if KAFKA is not None:

    @pytest.fixture(scope="session")
    def cordwood_node() -> KafkaInstead:
        assert KAFKA is not None
        return KafkaInstead(KAFKA)
