"""Spark's Python processes are forked from one that has imported what they need, and are what they would be without."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cordwood.spark.worker_launcher import NURSERY_VARIABLE, without_zips
from cordwood.spark.worker_nursery import start_nursery
from cordwood.spark.worker_python import worker_python
from tests.foreign_clients.kafka_client import eventually

IS_FORKED = "import sys; print('pyspark.worker' in sys.modules)"

_DRIVER = """
import os, sys
from cordwood.spark.worker_nursery import start_nursery
start_nursery()
print(os.environ[{variable!r}], flush=True)
sys.stdin.read()
"""


@contextmanager
def driven() -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A driver in a separate process, and the socket of its nursery."""
    with subprocess.Popen(
        [sys.executable, "-c", _DRIVER.format(variable=NURSERY_VARIABLE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        yield driver, Path(driver.stdout.readline().strip())
        driver.stdin.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Path]:
    with driven() as (_, path):
        yield path
    assert not path.parent.exists(), "the nursery is left over"


def test_a_nursery_ends_with_a_driver_that_is_killed() -> None:
    with driven() as (driver, path):
        assert run(path, "-c", IS_FORKED).stdout == "True\n"
        driver.kill()
        eventually(lambda: not path.parent.exists())


def run(nursery: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [worker_python(), *arguments],
        env={**os.environ, NURSERY_VARIABLE: str(nursery), **environment},
        input="told",
        capture_output=True,
        text=True,
    )


def test_needed_modules_have_been_imported(nursery: Path) -> None:
    assert run(nursery, "-c", IS_FORKED).stdout == "True\n"


def test_without_a_nursery_python_is_started_as_ever(tmp_path: Path) -> None:
    assert run(tmp_path / "nothing", "-c", IS_FORKED).stdout == "False\n"


def test_streams_arguments_and_environment_come_from_the_requesting_process(nursery: Path) -> None:
    said = run(nursery, "-c", "import os, sys; print(sys.argv, os.environ['A'], sys.stdin.read())", "more", A="b")
    assert said.stdout == "['-c', 'more'] b told\n"


def test_a_module_is_run_as_the_main_one(nursery: Path, tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text("import sys; print(__name__, sys.modules['__main__'].__spec__.name)")
    assert run(nursery, "-m", "answering", PYTHONPATH=str(tmp_path)).stdout == "__main__ answering\n"


def test_the_exit_code_is_handed_on(nursery: Path) -> None:
    assert run(nursery, "-c", "raise SystemExit(3)").returncode == 3


def test_start_errors_are_raised_in_the_requesting_process(nursery: Path) -> None:
    done = run(nursery, "-c", "raise ValueError('as ever')")
    assert done.returncode == 1
    assert "ValueError: as ever" in done.stderr


_TALKING = """
import os
from pyspark.serializers import write_int
read, written = os.pipe()
os.close(read)
write_int(1, os.fdopen(written, "wb", 0))
"""


def test_a_process_that_spark_does_not_listen_to_any_more_ends_without_a_trace(nursery: Path, tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(_TALKING)
    done = run(nursery, "-m", "talking", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")


def test_a_signal_goes_to_the_process_that_was_requested(nursery: Path) -> None:
    waiting = "import signal; print('ready', flush=True); signal.pause()"
    with subprocess.Popen(
        [worker_python(), "-c", waiting],
        env={**os.environ, NURSERY_VARIABLE: str(nursery)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM


def test_processes_are_forked_without_threads(nursery: Path) -> None:
    count = "import os; print(len(os.listdir('/proc/self/task')))"
    if not Path("/proc/self/task").exists():
        pytest.skip("threads are counted in /proc")
    assert run(nursery, "-c", count).stdout == "1\n"


def test_processes_draw_their_own_numbers(nursery: Path) -> None:
    drawing = "import random, numpy; print(random.random(), numpy.random.random())"
    one, other = run(nursery, "-c", drawing).stdout.split(), run(nursery, "-c", drawing).stdout.split()
    assert set(one).isdisjoint(other)


def test_a_driver_has_one_nursery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NURSERY_VARIABLE, "there")
    start_nursery()
    assert os.environ[NURSERY_VARIABLE] == "there"


def test_of_the_path_only_sparks_own_zips_are_dropped() -> None:
    path = os.pathsep.join(["/a", "/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9-src.zip", "/my/pyspark.zip"])
    assert without_zips(path) == os.pathsep.join(["/a", "/my/pyspark.zip"])


_SESSION = """
import sys
import cordwood.spark

def look(batches):
    import pyarrow
    for batch in batches:
        # Of us, this worker itself needs nothing.
        is_forked = "cordwood.spark.source.batch_reader" in sys.modules
        is_zipped = any(entry.endswith("pyspark.zip") for entry in sys.path)
        yield pyarrow.RecordBatch.from_pylist([{"is_forked": is_forked, "is_zipped": is_zipped}])

spark = cordwood.spark.session(master="local[1]", settings={"spark.driver.memory": "1g"})
print(*spark.range(1).mapInArrow(look, "is_forked boolean, is_zipped boolean").first())
spark.stop()
"""


def test_the_workers_of_a_session_come_from_its_nursery() -> None:
    own = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", NURSERY_VARIABLE)
    environment = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run([sys.executable, "-c", _SESSION], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
