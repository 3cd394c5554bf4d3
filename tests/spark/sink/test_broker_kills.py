"""A query from a topic to a topic on three brokers, which are killed one after the other while it runs: every record
once, without a new start of the query."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import cordwood.testing
from chaos.cluster import until
from cordwood import Admin
from cordwood.testing.local_cluster import LocalCluster
from tests.spark.killed_query import PARTITIONS, ROWS_PER_BATCH, Query
from tests.spark.sink_topics import committed, create, names

SETTINGS: dict[str, str | int] = {
    "transaction.two.phase.commit.enable": "true",
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "min.insync.replicas": 2,
}
# Each broker so often; all of them lead partitions of the source, the target and the internal topics. It takes minutes
# on a busy machine: `make failovers` has it, and `test_failover.py` is the same in virtual time.
ROUNDS = int(os.environ.get("SPARK_BROKER_KILL_ROUNDS", "0"))
pytestmark = pytest.mark.skipif(not ROUNDS, reason="make failovers")
# Which the query finishes while a broker is down.
BATCHES_WITHOUT = 2


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with cordwood.testing.cluster(brokers=3, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def query(cluster: LocalCluster, tmp_path: Path) -> Iterator[Query]:
    create(cluster.bootstrap, "in", "out", partitions=PARTITIONS)
    query = Query(cluster.bootstrap, tmp_path)
    yield query
    query.bury()


@pytest.mark.timeout(900)
def test_every_record_arrives_once_while_brokers_are_killed_one_after_the_other(
    cluster: LocalCluster, query: Query, tmp_path: Path
) -> None:
    chance = Random(7)
    enough = tmp_path / "enough"
    query.feed(2)
    query.start(until=enough)
    await_batches(query, 1)
    for _ in range(ROUNDS):
        for broker_id in chance.sample(list(cluster.brokers), 3):
            # Some of it is in work when the broker dies.
            query.feed(2 * BATCHES_WITHOUT)
            cluster.kill(broker_id)
            query.feed(1)
            await_batches(query, query.batches() + BATCHES_WITHOUT)
            cluster.start(broker_id)
            until(lambda: are_in_sync(cluster), "all replicas are in sync")
    enough.touch()
    assert query.end() == 0, query.said()
    assert query.lives == 1
    counts = Counter(record.value.decode() for record in committed(cluster.bootstrap, "out", PARTITIONS))
    assert [value for value, count in counts.items() if count > 1] == []
    assert set(counts) == {str(number) for number in range(query.rows)}
    assert names(cluster.bootstrap, "Ongoing") == set()
    assert query.rows == ROWS_PER_BATCH * (2 + ROUNDS * 3 * (2 * BATCHES_WITHOUT + 1))


def await_batches(query: Query, count: int) -> None:
    assert query.wait_for(lambda: query.batches() >= count), query.said()


def are_in_sync(cluster: LocalCluster) -> bool:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        topics = admin.list_topics(internal=True)
    return all(
        set(partition.isr) == set(partition.replicas) for topic in topics.values() for partition in topic.partitions
    )
