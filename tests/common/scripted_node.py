"""A node that answers as a test says, in a simulated world or on real sockets.

async with scripted_node(world, "node2") as node:
    node.answers[EndTxnRequest.api_key] = lambda request, version: EndTxnResponse(...)
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.server import Server
from cordwood.net.serving import Answer, BadRequest
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ServerTls
from cordwood.sim.world import World
from cordwood.wire.frames import decode_request, encode_response_parts
from cordwood.wire.messages import index, request_class
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

Script = Callable[[Any, int], Any]


class Cut(Exception):
    """Raised by a script: the connection is closed instead of an answer."""


class ScriptedNode:
    """Has every API in the versions that we have, up to those in `max_versions`. A script that returns None leaves its
    request without an answer. `seen` has what the node was asked, with the versions."""

    def __init__(self) -> None:
        self.address = Address("", 0)
        self.max_versions: dict[int, int] = {}
        self.answers: dict[int, Script] = {ApiVersionsRequest.api_key: self._api_versions}
        self.seen: list[tuple[Any, int]] = []

    @property
    def connections(self) -> int:
        """Each begins with ApiVersions."""
        return len(self.seen_of(ApiVersionsRequest))

    def seen_of(self, kind: type[Any]) -> list[Any]:
        return [request for request, _ in self.seen if isinstance(request, kind)]

    def handle(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        header, request = decode_request(frame)
        version = header.request_api_version
        self.seen.append((request, version))
        try:
            response = self.answers[header.request_api_key](request, version)
        except Cut as cut:
            raise BadRequest("as the script says") from cut
        return None if response is None else encode_response_parts(response, version, header.correlation_id)

    def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        ranges = []
        for key in index.APIS:
            versions = request_class(key).versions
            high = self.max_versions.get(key, versions.high)
            ranges.append(ApiVersion(api_key=key, min_version=versions.low, max_version=high))
        return ApiVersionsResponse(api_keys=ranges)


@asynccontextmanager
async def scripted_node(
    world: World | None, host: str = "127.0.0.1", port: int = 0, tls: ServerTls | None = None
) -> AsyncIterator[ScriptedNode]:
    node = ScriptedNode()
    server = Server(SocketNetwork() if world is None else world.network.host(host), node.handle)
    node.address = await server.listen("TEST", host, port, tls)
    try:
        yield node
    finally:
        await server.stop(grace_seconds=0)
