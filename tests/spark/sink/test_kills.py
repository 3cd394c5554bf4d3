"""A query from a topic to a topic whose driver is killed at each named point of a commit, whose driver or Python
workers are killed at random, and whose broker is killed in between: every record once."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cordwood.spark.sink.points import Point
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.killed_query import PARTITIONS, ROWS_PER_BATCH, Query
from tests.spark.sink_topics import committed, create, names

# A life of a driver takes some ten seconds, so where no number is given there are only the points with most to be done
# by the next life; `test_stream.py` has the others, with less than a whole driver killed.
RANDOM_KILLS = int(os.environ.get("SPARK_SINK_KILLS", "0"))
SEED = int(os.environ.get("SPARK_SINK_SEED", "7"))
_OF_ENDS = (Point.AFTER_DECISION, Point.BETWEEN_ENDS)
_OTHERS = (Point.TASK_WRITTEN, Point.TASK_LEFT, Point.COMMIT_BEGUN, Point.BEFORE_DECISION, Point.AFTER_ENDS)
POINTS = _OF_ENDS + (_OTHERS if RANDOM_KILLS else ())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "node", {"transaction.two.phase.commit.enable": "true"}).start()
    create(node.bootstrap, "in", "out", partitions=PARTITIONS)
    yield node
    node.kill()


@pytest.fixture
def query(node: NodeProcess, tmp_path: Path) -> Iterator[Query]:
    query = Query(node.bootstrap, tmp_path)
    yield query
    query.bury()


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


@pytest.mark.timeout(3_600)
def test_every_record_arrives_once_whatever_is_killed_of_driver_workers_and_broker(
    node: NodeProcess, query: Query
) -> None:
    chance = Random(SEED)
    query.feed(2 * len(POINTS))
    for point in POINTS:
        query.live_until(point)
        if chance.random() < 0.4:
            restart(node)
        query.kill()
    drivers, workers = kill_at_random(node, query, chance, RANDOM_KILLS)
    assert drivers + workers == RANDOM_KILLS
    print(f"killed at random: {drivers} times the driver, {workers} times workers; {query.lives} lives")
    if query.is_alive:
        query.kill()
    query.finish()
    counts = Counter(record.value.decode() for record in committed(query.bootstrap, "out", PARTITIONS))
    assert [value for value, count in counts.items() if count > 1] == []
    assert set(counts) == {str(number) for number in range(query.rows)}
    assert names(query.bootstrap, "Ongoing") == set()
    assert query.batches() >= query.rows // ROWS_PER_BATCH


def kill_at_random(node: NodeProcess, query: Query, chance: Random, kills: int) -> tuple[int, int]:
    """Somewhere in the next few batches, the driver or workers. How often each."""
    drivers = workers = 0
    while drivers + workers < kills:
        if not query.is_alive:
            # More than can be read until the moment comes.
            query.feed(10)
            query.start()
        until = query.batches() + chance.randrange(3)
        moment_s = 0.0

        def has_come(until: int = until) -> bool:
            nonlocal moment_s
            if not moment_s and query.batches() >= until:
                moment_s = time.monotonic() + chance.uniform(0, 2)
            return 0 < moment_s <= time.monotonic()

        if not query.wait_for(has_come):
            # It has read all there was, or its workers' end was its own.
            continue
        if (drivers + workers) % 3 == 1:
            restart(node)
        if chance.random() < 0.5:
            query.kill()
            drivers += 1
        else:
            workers += query.kill_workers(chance) > 0
    return drivers, workers
