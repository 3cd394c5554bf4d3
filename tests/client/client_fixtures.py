"""Fixtures of the client tests; CORDWOOD_TEST_KAFKA=host:port replaces nodes by a Kafka, CORDWOOD_TEST_NODES=3 by a
cluster of three with three replicas of everything."""

import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from cordwood import Admin, NewTopic, Producer
from tests.client.administering import Administer, administer_at
from tests.client.any_cluster import KAFKA, NODES, AnyCluster, any_cluster

_ON_NODES = frozenset({"node", "cordwood_node"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several nodes, deselects the tests of this folder that use none of them: they would show nothing new."""
    if NODES == 1:
        return
    folder = Path(__file__).parent
    without = [
        item
        for item in items
        if folder in item.path.parents and not _ON_NODES.intersection(getattr(item, "fixturenames", ()))
    ]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]


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


class InsteadOfNode:
    """A running cluster, with the parts of a node that the fixture `cordwood` needs."""

    log = ""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions=partitions, configs=configs or {})])
            admin.until_topics_led([name])
        return name


if KAFKA is not None or NODES > 1:

    @pytest.fixture(scope="session")
    def cordwood_node() -> Iterator[InsteadOfNode]:
        with any_cluster() as cluster:
            yield InsteadOfNode(cluster.bootstrap)
