"""A query from a topic to a topic whose driver is killed at each named point of a commit, whose driver or Python
workers are killed at random, and whose broker is killed in between: every record once."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from cordwood import Producer
from cordwood.spark.sink.points import Point
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.sink_topics import committed, create, names

PARTITIONS = 3
ROWS_PER_BATCH = 30
# A life of a driver takes some ten seconds, so where no number is given there are only the points with most to be done
# by the next life; `test_stream.py` has the others, with less than a whole driver killed.
RANDOM_KILLS = int(os.environ.get("SPARK_SINK_KILLS", "0"))
SEED = int(os.environ.get("SPARK_SINK_SEED", "7"))
WITHIN_S = 400
# Spark gives Python ten seconds to start, and a busy machine may need more.
BUSY, ATTEMPTS = "failed to connect back", 5
_OF_ENDS = (Point.AFTER_DECISION, Point.BETWEEN_ENDS)
_OTHERS = (Point.TASK_WRITTEN, Point.TASK_LEFT, Point.COMMIT_BEGUN, Point.BEFORE_DECISION, Point.AFTER_ENDS)
POINTS = _OF_ENDS + (_OTHERS if RANDOM_KILLS else ())
# A task whose worker is killed ends the query, or is tried again.
MASTERS = ("local[2]", "local[2,4]")


class Query:
    def __init__(self, node: NodeProcess, folder: Path) -> None:
        self.node = node
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self._mark = f"SPARK_SINK_TEST_LIFE={uuid.uuid4().hex}-"
        self._life: subprocess.Popen[bytes] | None = None
        self.lives = 0
        self.rows = 0

    def feed(self, batches: int) -> None:
        """A run reads what exists when it starts."""
        more = range(self.rows, self.rows + batches * ROWS_PER_BATCH)
        with Producer(bootstrap_servers=self.node.bootstrap) as producer:
            # In each partition there is some of each batch: more than one transaction is to be ended.
            producer.send_many(("in", str(number), None, number % PARTITIONS) for number in more)
        self.rows = more.stop

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.poll() is None

    def start(self, **options: str) -> None:
        self.lives += 1
        told = {
            "bootstrap": self.node.bootstrap,
            "from": "in",
            "to": "out",
            "checkpoint": str(self.checkpoint),
            "master": MASTERS[self.lives % len(MASTERS)],
            "rows_per_batch": ROWS_PER_BATCH,
            "options": options,
        }
        name, _, value = self._mark.partition("=")
        with self._log.open("wb") as log:
            self._life = subprocess.Popen(
                [sys.executable, str(Path(__file__).parents[1] / "sink_query_life.py"), json.dumps(told)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, name: f"{value}{self.lives}"},
            )

    def batches(self) -> int:
        """That Spark knows as committed. Of the older ones it has removed the files."""
        numbers = [int(path.name) for path in (self.checkpoint / "commits").glob("*") if path.name.isdigit()]
        return max(numbers, default=-1) + 1

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
        with suppress(ProcessLookupError):
            os.killpg(self._life.pid, signal.SIGKILL)
        self._life.wait()

    def kill_workers(self, chance: Random) -> int:
        """Some of this life's Python workers, or all of them; how many. The driver is none of them."""
        found = [pid for pid in self._marked(f"{self._mark}{self.lives}\0") if _is_worker(pid)]
        chosen = chance.sample(found, chance.randint(1, len(found))) if found else []
        return sum(_kill(pid) for pid in chosen)

    def live_until(self, point: Point) -> None:
        """There the driver halts."""
        reached = self.folder / point.value
        for _ in range(ATTEMPTS):
            self.start(**{"testing.at": f"{point.value}=halt:{reached}"})
            if self.wait_for(reached.exists):
                return
            assert BUSY in self.said(), self.said()
        raise AssertionError(f"Python was not started in time, {ATTEMPTS} times")

    def finish(self) -> None:
        """A last life, until all is read."""
        for _ in range(ATTEMPTS):
            self.start()
            assert self._life is not None
            if self._life.wait(timeout=WITHIN_S) == 0:
                return
            assert BUSY in self.said(), self.said()
        raise AssertionError(f"Python was not started in time, {ATTEMPTS} times")

    def bury(self) -> None:
        """Whatever is left of any life."""
        if self.is_alive:
            self.kill()
        for pid in self._marked(self._mark):
            _kill(pid)

    def _marked(self, mark: str) -> Iterator[int]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (process / "environ").read_bytes():
                    yield int(process.name)
            except OSError:
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
    query = Query(node, tmp_path)
    try:
        yield query
    finally:
        query.bury()
        node.kill()


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


def _is_worker(pid: int) -> bool:
    """The driver runs a file, and Java is no Python; all others work for Spark."""
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    is_driver = any(argument.endswith(b"sink_query_life.py") for argument in arguments)
    return Path(program.decode()).name.startswith("python") and not is_driver


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.timeout(3_600)
def test_every_record_arrives_once_whatever_is_killed_of_driver_workers_and_broker(query: Query) -> None:
    chance = Random(SEED)
    query.feed(2 * len(POINTS))
    for point in POINTS:
        query.live_until(point)
        if chance.random() < 0.4:
            restart(query.node)
        query.kill()
    drivers, workers = kill_at_random(query, chance, RANDOM_KILLS)
    assert drivers + workers == RANDOM_KILLS
    print(f"killed at random: {drivers} times the driver, {workers} times workers; {query.lives} lives")
    if query.is_alive:
        query.kill()
    query.finish()
    counts = Counter(record.value.decode() for record in committed(query.node.bootstrap, "out", PARTITIONS))
    assert [value for value, count in counts.items() if count > 1] == []
    assert set(counts) == {str(number) for number in range(query.rows)}
    assert names(query.node.bootstrap, "Ongoing") == set()
    assert query.batches() >= query.rows // ROWS_PER_BATCH


def kill_at_random(query: Query, chance: Random, kills: int) -> tuple[int, int]:
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
            restart(query.node)
        if chance.random() < 0.5:
            query.kill()
            drivers += 1
        else:
            workers += query.kill_workers(chance) > 0
    return drivers, workers
