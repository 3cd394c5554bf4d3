"""A query from a topic to a topic in its own processes, whose driver and workers tests kill."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from cordwood import Producer
from cordwood.spark.sink.points import Point

PARTITIONS = 3
ROWS_PER_BATCH = 30
WITHIN_S = 400
# Spark gives Python ten seconds to start, and a busy machine may need more.
BUSY, ATTEMPTS = "failed to connect back", 5
# A task whose worker is killed ends the query, or is tried again.
MASTERS = ("local[2]", "local[2,4]")


class Query:
    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self._mark = f"SPARK_SINK_TEST_LIFE={uuid.uuid4().hex}-"
        self._life: subprocess.Popen[bytes] | None = None
        self.lives = 0
        self.rows = 0

    def feed(self, batches: int) -> None:
        """A run reads what exists when it starts, unless it runs until it is stopped."""
        more = range(self.rows, self.rows + batches * ROWS_PER_BATCH)
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            # In each partition there is some of each batch: more than one transaction is to be ended.
            producer.send_many(("in", str(number), None, number % PARTITIONS) for number in more)
        self.rows = more.stop

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.poll() is None

    def start(self, until: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        """A life until all is read that is there now; or until a file exists, and all is read that is there then."""
        self.lives += 1
        told = {
            "bootstrap": self.bootstrap,
            "from": "in",
            "to": "out",
            "checkpoint": str(self.checkpoint),
            "master": MASTERS[self.lives % len(MASTERS)],
            "rows_per_batch": ROWS_PER_BATCH,
            "until": None if until is None else str(until),
            "options": dict(options or {}),
        }
        name, _, value = self._mark.partition("=")
        with self._log.open("wb") as log:
            self._life = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("sink_query_life.py")), json.dumps(told)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, name: f"{value}{self.lives}"},
            )

    def batches(self) -> int:
        """That Spark knows as committed. It has removed the files of older ones."""
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

    def end(self) -> int:
        """The exit code of this life, once it has ended."""
        assert self._life is not None
        return self._life.wait(timeout=WITHIN_S)

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
            self.start(options={"testing.at": f"{point.value}=halt:{reached}"})
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
        """The rest of any life."""
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
