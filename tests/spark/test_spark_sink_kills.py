"""A query from a topic to a topic whose driver is killed, at each named point of a commit and at random, and whose
broker is killed in between: every record once."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from node_process import NodeProcess
from sink_topics import committed, create, names

from cordwood import Producer
from cordwood.spark.sink.points import Point

PARTITIONS = 3
ROWS_PER_BATCH = 30
# A life of a driver takes some ten seconds, so where no number is given there are only the points that matter most;
# test_spark_sink_stream.py has the others, with less than a whole driver killed.
RANDOM_KILLS = int(os.environ.get("SPARK_SINK_KILLS", "0"))
WITHIN_S = 400
_OF_COMMITS = (Point.BEFORE_DECISION, Point.AFTER_DECISION, Point.BETWEEN_ENDS)
_OTHERS = (Point.TASK_WRITTEN, Point.TASK_LEFT, Point.COMMIT_BEGUN, Point.AFTER_ENDS)
POINTS = _OF_COMMITS + (_OTHERS if RANDOM_KILLS else ())
ROWS = ROWS_PER_BATCH * (2 * len(POINTS) + 3 * RANDOM_KILLS)


class Query:
    def __init__(self, node: NodeProcess, folder: Path) -> None:
        self.node = node
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self._mark = f"SPARK_SINK_TEST_LIFE={uuid.uuid4().hex}"
        self._life: subprocess.Popen[bytes] | None = None
        self.lives = 0

    def start(self, **options: str) -> None:
        self.lives += 1
        told = {
            "bootstrap": self.node.bootstrap,
            "from": "in",
            "to": "out",
            "checkpoint": str(self.checkpoint),
            "rows_per_batch": ROWS_PER_BATCH,
            "options": options,
        }
        name, _, value = self._mark.partition("=")
        with self._log.open("wb") as log:
            self._life = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "sink_query_life.py"), json.dumps(told)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, name: value},
            )

    def batches(self) -> int:
        """That Spark knows as committed."""
        commits = self.checkpoint / "commits"
        return len([path for path in commits.glob("*") if path.name.isdigit()]) if commits.exists() else 0

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """False if the life has ended before."""
        assert self._life is not None
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            try:
                self._life.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < deadline, self.said()
            else:
                return condition()
        return True

    def kill(self) -> None:
        """The driver and its JVM at once; its Python workers find out by themselves, as zombies do."""
        assert self._life is not None
        os.killpg(self._life.pid, signal.SIGKILL)
        self._life.wait()

    def finish(self) -> None:
        assert self._life is not None
        assert self._life.wait(timeout=WITHIN_S) == 0, self.said()

    def bury(self) -> None:
        """Whatever is left of any life."""
        if self._life is not None and self._life.poll() is None:
            self.kill()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    @property
    def _log(self) -> Path:
        return self.folder / f"life-{self.lives}.log"

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-8_000:]


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    node = NodeProcess(tmp_path / "node", {"transaction.two.phase.commit.enable": "true"}).start()
    create(node.bootstrap, "in", "out", partitions=PARTITIONS)
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        producer.send_many(("in", str(number)) for number in range(ROWS))
    query = Query(node, tmp_path)
    try:
        yield query
    finally:
        query.bury()
        node.kill()


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


@pytest.mark.timeout(3_600)
def test_every_record_arrives_once_however_often_the_driver_and_the_broker_are_killed(query: Query) -> None:
    chance = Random(7)
    for point in POINTS:
        reached = query.folder / point.value
        query.start(**{"testing.at": f"{point.value}=halt:{reached}"})
        assert query.wait_for(reached.exists), query.said()
        if chance.random() < 0.4:
            restart(query.node)
        query.kill()
    for number in range(RANDOM_KILLS):
        until = query.batches() + chance.randrange(3)
        query.start()
        if not query.wait_for(lambda until=until: query.batches() >= until):  # type: ignore[misc]
            break
        moment = time.monotonic() + chance.uniform(0, 2)
        query.wait_for(lambda moment=moment: time.monotonic() >= moment)  # type: ignore[misc]
        if number % 3 == 1:
            restart(query.node)
        query.kill()
    query.start()
    query.finish()
    counts = Counter(record.value.decode() for record in committed(query.node.bootstrap, "out", PARTITIONS))
    assert [value for value, count in counts.items() if count > 1] == []
    assert set(counts) == {str(number) for number in range(ROWS)}
    assert names(query.node.bootstrap, "Ongoing") == set()
    assert query.batches() >= ROWS // ROWS_PER_BATCH
