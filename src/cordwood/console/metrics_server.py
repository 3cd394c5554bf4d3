"""Metrics where Prometheus finds them: `GET /metrics`, and with `?partitions=yes` those of each partition too."""

from __future__ import annotations

from http import HTTPStatus

from cordwood.node import Node
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network

from .exposition import CONTENT_TYPE
from .http_server import HttpServer, Page, error_page
from .metrics import Metrics

_WITH_PARTITIONS = "partitions=yes"


class MetricsServer:
    """server = await MetricsServer.start(node, network, clock, "127.0.0.1", 9644)"""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._http: HttpServer

    @classmethod
    async def start(cls, node: Node, network: Network, clock: Clock, host: str, port: int) -> MetricsServer:
        """For a node that has started. Raises `CannotListen`."""
        server = cls(Metrics(node, clock))
        try:
            server._http = await HttpServer.listen(network, host, port, server._page)
        except BaseException:
            server._metrics.stop()
            raise
        return server

    @property
    def url(self) -> str:
        return f"http://{self._http.address}/metrics"

    def stop(self) -> None:
        self._http.stop()
        self._metrics.stop()

    async def _page(self, path: str, query: str) -> Page:
        match path:
            case "/metrics":
                with_partitions = _WITH_PARTITIONS in query.split("&")
                return Page(await self._metrics.page(with_partitions=with_partitions), CONTENT_TYPE)
            case "/":
                return Page(b"A Cordwood node. Its metrics: /metrics\n")
            case _:
                return error_page(HTTPStatus.NOT_FOUND)
