"""What monitors ask a node over HTTP:

- `/metrics`: figures for Prometheus; with `?partitions=yes` those of each partition too.
- `/healthz`: 200 if the process is alive and its event loop turns, which an answer proves.
- `/ready`: 200 if the node has joined, its log directories are online and its partitions have leaders; otherwise 503,
  with the reasons.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cordwood.net.http.server import HttpServer
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
    """It listens before the node starts, so that monitors can tell a node that starts from one that is gone:

    server = await MetricsServer.listen(network, clock, "127.0.0.1", 9644)
    node = await Node.start(...)
    server.measure(node)
    """

    def __init__(self, network: Network, clock: Clock) -> None:
        self._clock = clock
        self._http = HttpServer(network, clock)
        self._address: Address
        self._node: Node | None = None
        self._metrics: Metrics | None = None

    @classmethod
    async def listen(cls, network: Network, clock: Clock, host: str, port: int) -> MetricsServer:
        """Raises `CannotListen`."""
        server = cls(network, clock)
        routes = [
            Route("/", server._index),
            Route("/metrics", server._page),
            Route("/healthz", server._health),
            Route("/ready", server._readiness),
        ]
        server._address = await server._http.serve(Starlette(routes=routes), host, port)
        return server

    def measure(self, node: Node) -> None:
        """Shows a node that has started."""
        self._node = node
        self._metrics = Metrics(node, self._clock)

    @property
    def url(self) -> str:
        return f"http://{self._address}/metrics"

    async def stop(self) -> None:
        await self._http.stop(_STOP_GRACE_S)
        if self._metrics is not None:
            self._metrics.stop()

    async def _index(self, request: Request) -> Response:
        return PlainTextResponse("A Cordwood node. Its metrics: /metrics, its health: /healthz, /ready\n")

    async def _page(self, request: Request) -> Response:
        if self._metrics is None:
            return PlainTextResponse(f"{_STARTING}\n", 503, _NO_STORE)
        with_partitions = request.query_params.get("partitions") == "yes"
        page = await self._metrics.page(with_partitions=with_partitions)
        return Response(page, headers={"Content-Type": CONTENT_TYPE, **_NO_STORE})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"alive": True}, headers=_NO_STORE)

    async def _readiness(self, request: Request) -> Response:
        found = [_STARTING] if self._node is None else problems(self._node)
        return JSONResponse({"ready": not found, "problems": found}, 503 if found else 200, _NO_STORE)
