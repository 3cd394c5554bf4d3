"""A Spark session on this machine, and a node in a separate process for it to read from and write to."""

import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cordwood import Admin, Producer
from cordwood.spark.worker_python import worker_python

# The node as the tests with other clients have it.
from tests.foreign_clients.node_process import NodeProcess

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, no page, nothing that listens beyond this machine."""
    folder = tmp_path_factory.mktemp("spark")
    # Python workers are started with the interpreter of the tests, wherever PATH points.
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = worker_python(), worker_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("cordwood-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.streaming.stopTimeout", "30s")
        # A test has little data: what waits is the planning, not the rows.
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    with warnings.catch_warnings():
        # The gateway leaves sockets to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """The node that most tests share; or, as for the tests with other clients, the Kafka that stands in for it."""
    # Retention leaves records alone that tests give old timestamps.
    process = NodeProcess(tmp_path_factory.mktemp("node"), {"log.initial.task.delay.ms": "86400000"})
    if KAFKA is not None:
        process.bootstrap = KAFKA
        yield process
        return
    yield process.start()
    said = process.stderr()
    process.kill()
    assert "Traceback" not in said, said


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Starts a node that is the test's alone."""
    if KAFKA is not None:
        pytest.skip("needs a node of its own; Kafka stands in for the node")
    started: list[NodeProcess] = []

    def start(settings: Mapping[str, str] | None = None) -> NodeProcess:
        started.append(NodeProcess(tmp_path / f"node-{len(started)}", settings))
        return started[-1].start()

    yield start
    for process in started:
        process.kill()


@pytest.fixture(scope="session")
def admin(node: NodeProcess) -> Iterator[Admin]:
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        yield admin


@pytest.fixture(scope="session")
def producer(node: NodeProcess) -> Iterator[Producer]:
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        yield producer


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"
