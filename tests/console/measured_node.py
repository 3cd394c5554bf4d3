"""A real node with metrics, on the loop of the test, and what its page says."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.console.metrics_server import MetricsServer
from cordwood.node import Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.assembly import start_node
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch


@dataclass
class MeasuredNode:
    node: Node
    client: Client
    server: MetricsServer

    async def scrape(self, query: str = "") -> "Figures":
        status, body = await ask(self.server, f"/metrics{query}")
        assert status == 200
        return Figures(text_string_to_metric_families(body.decode()))


async def ask(server: MetricsServer, path: str) -> tuple[int, bytes]:
    """Status and body, by Python's own client."""

    def get() -> tuple[int, bytes]:
        connection = HTTPConnection(urlsplit(server.url).netloc)
        connection.request("GET", path)
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    return await asyncio.to_thread(get)


class Figures:
    """A page, as Prometheus's own parser reads it."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = {family.name: family for family in families}
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float:
        """0 for what is not there: nothing of its kind has happened."""
        return self._samples.get((name, frozenset(labels.items())), 0)


@asynccontextmanager
async def measured_node(data: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[MeasuredNode]:
    network = SocketNetwork()
    server = await MetricsServer.listen(network, SystemClock(), "127.0.0.1", 0)
    node = await start_node(settings or {}, str(data), 0, measures=server.measures)
    server.show(node)
    try:
        async with await Client.connect(parse_bootstrap(node.bootstrap), network=network) as client:
            yield MeasuredNode(node, client, server)
    finally:
        await server.stop()
        await node.stop()


async def make_topic(measured: MeasuredNode, name: str, partitions: int = 1) -> bytes:
    """Its id."""
    created = (await create_topics(measured.client, [NewTopic(name, partitions)]))[name]
    assert not isinstance(created, BrokerError)
    return created.id


async def produce(measured: MeasuredNode, topic_id: bytes, acks: int = -1) -> int:
    """Appends three records to partition 0; the size of their batch."""
    batch = encode_batch([Record(offset, 1_700_000_000_000, None, b"x") for offset in range(3)])
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[partition])],
    )
    connection = await measured.client.any_broker()
    if acks:
        await connection.ask(request)
    else:
        connection.start_only(request)
    return len(batch)


def fetch_request(
    topic_id: bytes, fetch_offset: int, max_wait_ms: int, max_bytes: int = 1 << 20, isolation_level: int = 0
) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=fetch_offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
    )
