"""The HTTP endpoints for monitoring:

- `/metrics`: figures for Prometheus; with `?partitions=yes` those of each partition too.
- `/healthz`: 200 if the process is alive and its event loop turns, which an answer proves.
- `/ready`: 200 if the node has joined, its log directories are online and its partitions have leaders; otherwise 503,
  with the reasons.
"""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cordwood.net.http.server import HttpServer
from cordwood.net.measures import Measures
from cordwood.node import Node
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Address, Network

from .exposition import CONTENT_TYPE
from .health import problems
from .metrics import Metrics

_NO_STORE = {"Cache-Control": "no-store"}
_STARTING = "the node is starting"
_STOP_GRACE_S = 2.0


class MetricsServer:
    """Starts listening before the node starts, so that monitoring can distinguish a starting node from a dead one:

    server = await MetricsServer.listen(network, clock, "127.0.0.1", 9644)
    node = await Node.start(..., measures=server.measures)
    server.show(node)
    """

    def __init__(self, http: HttpServer, address: Address, pages: _Pages) -> None:
        self._http = http
        self._address = address
        self._pages = pages

    @classmethod
    async def listen(cls, network: Network, clock: Clock, host: str, port: int) -> MetricsServer:
        """Raises `CannotListen`."""
        http = HttpServer(network, clock)
        pages = _Pages(Metrics(clock))
        try:
            address = await http.serve(pages.app(), host, port)
        except BaseException:
            pages.metrics.stop()
            raise
        return cls(http, address, pages)

    @property
    def measures(self) -> Measures:
        """The measures to start the node with."""
        return self._pages.metrics.requests

    def show(self, node: Node) -> None:
        """Serves the metrics of a node that was started with `measures`."""
        self._pages.started.set_result(node)

    @property
    def url(self) -> str:
        return f"http://{self._address}/metrics"

    async def stop(self) -> None:
        await self._http.stop(_STOP_GRACE_S)
        self._pages.metrics.stop()


class _Pages:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.started: asyncio.Future[Node] = asyncio.get_running_loop().create_future()

    def app(self) -> Starlette:
        routes = [
            Route("/", self._index),
            Route("/metrics", self._page),
            Route("/healthz", self._health),
            Route("/ready", self._readiness),
        ]
        return Starlette(routes=routes)

    async def _index(self, request: Request) -> Response:
        return PlainTextResponse("A Cordwood node. Its metrics: /metrics, its health: /healthz, /ready\n")

    async def _page(self, request: Request) -> Response:
        if not self.started.done():
            return PlainTextResponse(f"{_STARTING}\n", 503, _NO_STORE)
        with_partitions = request.query_params.get("partitions") == "yes"
        page = await self.metrics.page(self.started.result(), with_partitions=with_partitions)
        return Response(page, headers={"Content-Type": CONTENT_TYPE, **_NO_STORE})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"alive": True}, headers=_NO_STORE)

    async def _readiness(self, request: Request) -> Response:
        found = problems(self.started.result()) if self.started.done() else [_STARTING]
        return JSONResponse({"ready": not found, "problems": found}, 503 if found else 200, _NO_STORE)
