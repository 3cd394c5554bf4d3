"""A real node with metrics, on the loop of the test, and what its page says."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.client import Client
from cordwood.console.metrics_server import MetricsServer
from cordwood.node import Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.assembly import start_node


@dataclass
class MeasuredNode:
    node: Node
    client: Client
    server: MetricsServer

    async def scrape(self, query: str = "") -> "Figures":
        host, port = self.server.url.removeprefix("http://").removesuffix("/metrics").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /metrics{query} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        return Figures(text_string_to_metric_families(body.decode()))


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
async def measured_node(data: Path) -> AsyncIterator[MeasuredNode]:
    node = await start_node({}, str(data), 0)
    network = SocketNetwork()
    server = await MetricsServer.start(node, network, SystemClock(), "127.0.0.1", 0)
    try:
        async with await Client.connect(parse_bootstrap(node.bootstrap), network=network) as client:
            yield MeasuredNode(node, client, server)
    finally:
        server.stop()
        await node.stop()
