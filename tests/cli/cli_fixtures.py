"""Fixtures of the command's tests: a node, or Kafka with CORDWOOD_TEST_KAFKA=host:port, and Kafka's files."""

import os
import re
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_runner import Cli
from tests.cli.log_dumping import VECTORS

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")
READY = re.compile(r"is ready: bootstrap ([^ ,]+)")


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if KAFKA is not None:
        yield KAFKA
        return
    data = tmp_path_factory.mktemp("node")
    command = [sys.executable, "-m", "cordwood", "up", "--port", "0", "--data", str(data)]
    # No new group waits for more members, and retention leaves records alone that tests give old timestamps.
    command += ["--set", "group.initial.rebalance.delay.ms=0", "--set", "log.initial.task.delay.ms=86400000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = READY.search(node.stdout.readline())
            assert ready is not None, "the node did not start"
            yield ready[1]
        finally:
            node.terminate()


@pytest.fixture(autouse=True)
def configuration_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of profiles: not the user's own."""
    for variable in ("CORDWOOD_BOOTSTRAP", "CORDWOOD_CLIENT_CONFIG", "CORDWOOD_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "cordwood"


@pytest.fixture
def cli(bootstrap: str) -> Cli:
    return Cli(bootstrap)


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's own data directory; not to be changed."""
    target = tmp_path_factory.mktemp("kafka")
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / "data"
