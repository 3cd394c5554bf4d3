"""The node that real clients are tested against, and those clients.

`CORDWOOD_TEST_KAFKA=host:port` puts a running Apache Kafka in the node's place, to see that the tests ask for nothing
that Kafka does not do. Tests that start, stop or configure a node are skipped then. If that Kafka has a second listener
that advertises another port of 127.0.0.1, `CORDWOOD_TEST_KAFKA_PROXIED=host:port:advertised` says so.

`CORDWOOD_TEST_NODES=3` puts three nodes in its place, each a broker and a controller. All topics have three replicas
then, of which two have to be in sync. A test that stops, kills or starts the node does so with all three. Tests of a
node that stands alone are skipped.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.foreign_clients.aiokafka_client import AiokafkaClient
from tests.foreign_clients.cordwood_client import CordwoodClient
from tests.foreign_clients.cutting_proxy import CuttingProxy
from tests.foreign_clients.kafka_client import Address, Admin, Client, IncrementalAdmin
from tests.foreign_clients.kafka_python_client import KafkaPythonClient
from tests.foreign_clients.kcat_client import KCAT, KcatClient
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_cluster import NodeCluster
from tests.foreign_clients.node_process import NodeProcess, Nodes, free_port

# Certificates are made as for the tests of the network, senseless requests as for those of the protocol.

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")
KAFKA_PROXIED = os.environ.get("CORDWOOD_TEST_KAFKA_PROXIED")
NODES = int(os.environ.get("CORDWOOD_TEST_NODES", "1"))
one_node = pytest.mark.skipif(NODES > 1, reason="about a node that stands alone")
# Some batches each time; a few responses, the first of which are of several hundred bytes.
CUTS = {"seed": 1, "mean_request_bytes": 20_000, "mean_response_bytes": 2_000}

CLIENTS: dict[str, type[Client]] = {
    "librdkafka": LibrdkafkaClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
    "kcat": KcatClient,
    "cordwood": CordwoodClient,
}
ADMINS = ("librdkafka", "kafka-python", "aiokafka", "cordwood")
INCREMENTAL_ADMINS = ("librdkafka", "kafka-python", "cordwood")


# Nodes of this test run that are alive as far as known.
watched_nodes: list[NodeProcess] = []


@pytest.fixture(autouse=True)
def what_the_nodes_say() -> Iterator[None]:
    """Is shown with a test that fails. An exception of a node's own is a failure in itself."""
    before = {id(process): len(process.stderr()) for process in watched_nodes}
    yield
    said = "".join(process.stderr()[before.get(id(process), 0) :] for process in watched_nodes)
    print(said)
    watched_nodes[:] = [process for process in watched_nodes if process.is_running]
    assert "Traceback" not in said


def start_nodes(folder: Path, settings: Mapping[str, str] | None = None, *, port: int | None = 0) -> Nodes:
    """A node, or as many as CORDWOOD_TEST_NODES says. Those take free ports."""
    if NODES == 1:
        process = NodeProcess(folder, settings, port=port)
        watched_nodes.append(process)
        return process.start()
    if port != 0:
        pytest.skip("configures the listeners of one node")
    cluster = NodeCluster(folder, settings or {})
    watched_nodes.extend(cluster.nodes.values())
    return cluster.start()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes | None]:
    """The node that most tests share; None if Kafka is used instead."""
    if KAFKA is not None:
        yield None
        return
    # Retention leaves records alone that tests give old timestamps.
    nodes = start_nodes(tmp_path_factory.mktemp("node"), {"log.initial.task.delay.ms": "86400000"})
    yield nodes
    nodes.kill()


@pytest.fixture(scope="session")
def address(node: Nodes | None) -> Address:
    if node is None:
        assert KAFKA is not None
        return Address(KAFKA)
    return Address(node.bootstrap)


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    """Starts a node that is the test's alone."""
    if KAFKA is not None:
        pytest.skip("needs a node of its own; Kafka stands in for the node")
    started: list[Nodes] = []

    def start(settings: Mapping[str, str] | None = None, *, port: int | None = 0) -> Nodes:
        nodes = start_nodes(tmp_path / f"node-{len(started)}", settings, port=port)
        started.append(nodes)
        return nodes

    yield start
    for nodes in started:
        nodes.kill()


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Iterator[CuttingProxy]:
    """A proxy that cuts connections, in front of a broker that clients reach through it."""
    if KAFKA is not None:
        if KAFKA_PROXIED is None:
            pytest.skip("needs a listener that advertises the proxy; Kafka stands in for the node")
        host, port, advertised = KAFKA_PROXIED.split(":")
        with CuttingProxy(**CUTS, port=int(advertised)) as proxy:
            proxy.target = (host, int(port))
            yield proxy
        return
    start = request.getfixturevalue("own_node")
    with CuttingProxy(**CUTS) as proxy:
        proxy.target = ("127.0.0.1", free_port())
        start({"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}, port=proxy.target[1])
        yield proxy


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def connect() -> Iterator[Callable[[str, Address], Client]]:
    """Opens a client by its name."""
    opened: list[Client] = []

    def open_client(name: str, address: Address) -> Client:
        if name == "kcat" and KCAT is None:
            pytest.skip("kcat is not installed")
        client = CLIENTS[name](address)
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.close()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, connect: Callable[[str, Address], Client], address: Address) -> Client:
    """Each client in turn."""
    return connect(request.param, address)


@pytest.fixture(params=ADMINS)
def admin(request: pytest.FixtureRequest, connect: Callable[[str, Address], Admin], address: Address) -> Admin:
    """Each client that can administer, in turn."""
    return connect(request.param, address)


@pytest.fixture(params=INCREMENTAL_ADMINS)
def incremental_admin(
    request: pytest.FixtureRequest, connect: Callable[[str, Address], IncrementalAdmin], address: Address
) -> IncrementalAdmin:
    return connect(request.param, address)


@pytest.fixture
def librdkafka(connect: Callable[[str, Address], LibrdkafkaClient], address: Address) -> LibrdkafkaClient:
    """The client for a test's preparations."""
    return connect("librdkafka", address)
