"""A Spark session on this machine, and a node in a process of its own for it to read from and write to."""

import os
import sys
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cordwood import Admin, Producer

# The node as the tests with other clients have it.
sys.path.append(str(Path(__file__).parent.parent / "clients"))

from node_process import NodeProcess


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, no page, nothing that listens beyond this machine."""
    folder = tmp_path_factory.mktemp("spark")
    # Python workers are started with the interpreter of the tests, wherever PATH points.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
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
    """The node that most tests share."""
    process = NodeProcess(tmp_path_factory.mktemp("node")).start()
    yield process
    said = process.stderr()
    process.kill()
    assert "Traceback" not in said, said


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
