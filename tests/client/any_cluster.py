"""A cluster for the clients of threads: a node of our own, three of them with CORDWOOD_TEST_NODES=3, or Kafka with
CORDWOOD_TEST_KAFKA=host:port."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import cordwood.testing
from cordwood import Admin, NewTopic

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")
NODES = int(os.environ.get("CORDWOOD_TEST_NODES", "1"))
_numbers = count()


@dataclass(frozen=True, slots=True)
class AnyCluster:
    bootstrap: str
    run: str
    """Makes names that an older run on the same cluster did not use."""

    def topic(self, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = self.name("topic")
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions=partitions, configs=configs or {})])
            admin.until_topics_led([name])
        return name

    def name(self, what: str) -> str:
        return f"{what}-{self.run}-{next(_numbers)}"


@contextmanager
def any_cluster() -> Iterator[AnyCluster]:
    run = os.urandom(4).hex()
    if KAFKA is not None:
        yield AnyCluster(KAFKA, run)
    elif NODES > 1:
        with cordwood.testing.cluster(brokers=NODES) as cluster:
            yield AnyCluster(cluster.bootstrap, run)
    else:
        with cordwood.testing.node() as node:
            yield AnyCluster(node.bootstrap, run)
