"""Brokers that answer as a test says, over real sockets: for what a healthy broker does not do when one would like it.

async with scripted_brokers(2) as brokers:
    brokers[0].answers[ListOffsetsRequest.api_key] = lambda request, version: ListOffsetsResponse(...)
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cordwood.client.client import Client
from cordwood.client.settings import Settings
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.server import Server
from cordwood.net.serving import Answer, BadRequest
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.sim.world import World
from cordwood.wire.exceptions import UnsupportedRequest
from cordwood.wire.frames import decode_request, encode_response, encode_response_parts
from cordwood.wire.messages import index, request_class
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID = bytes(range(16))
IMPATIENT = Settings(
    retry_backoff_ms=1,
    retry_backoff_max_ms=2,
    reconnect_backoff_ms=1,
    reconnect_backoff_max_ms=2,
    default_api_timeout_ms=10_000,
)

Script = Callable[[Any, int], Any]


class Cut(Exception):
    """Raised by a script: the connection is closed instead of an answer."""


class ScriptedBroker:
    """Knows one topic, `t`, whose partitions `leaders` names the leaders of. `seen` has what it was asked."""

    def __init__(self, cluster: "list[ScriptedBroker]", node_id: int) -> None:
        self.id = node_id
        self.address = Address("", 0)
        self.leaders = [1]
        self.leader_epoch = 0
        self.controller = 1
        self.max_versions: dict[int, int] = {}
        self.answers: dict[int, Script] = {
            ApiVersionsRequest.api_key: self._api_versions,
            MetadataRequest.api_key: self._metadata,
        }
        self.seen: list[tuple[Any, int]] = []
        self._cluster = cluster

    def seen_of(self, kind: type[Any]) -> list[Any]:
        return [request for request, _ in self.seen if isinstance(request, kind)]

    def handle(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as error:
            raise BadRequest(str(error)) from error
        version = header.request_api_version
        self.seen.append((request, version))
        if version > self.max_versions.get(header.request_api_key, version):
            refusal = ApiVersionsResponse(error_code=35, api_keys=self._ranges([ApiVersionsRequest.api_key]))
            return [encode_response(refusal, 0, header.correlation_id)]
        try:
            response = self.answers[header.request_api_key](request, version)
        except Cut as cut:
            raise BadRequest("as the script says") from cut
        return None if response is None else encode_response_parts(response, version, header.correlation_id)

    def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=self._ranges(list(index.APIS)))

    def _ranges(self, keys: list[int]) -> list[ApiVersion]:
        ranges = []
        for key in keys:
            versions = request_class(key).versions
            high = self.max_versions.get(key, versions.high)
            ranges.append(ApiVersion(api_key=key, min_version=versions.low, max_version=high))
        return ranges

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=leader,
                leader_epoch=self.leader_epoch,
                replica_nodes=[leader],
                isr_nodes=[leader],
            )
            for number, leader in enumerate(self.leaders)
        ]
        topics = []
        for asked in request.topics if request.topics is not None else [None]:
            name = "t" if asked is None else asked.name
            known = name == "t"
            topics.append(
                MetadataResponseTopic(
                    name=name,
                    topic_id=TOPIC_ID if known else bytes(16),
                    error_code=0 if known else 3,
                    partitions=partitions if known else [],
                )
            )
        return MetadataResponse(
            cluster_id="scripted",
            controller_id=self.controller,
            brokers=[
                MetadataResponseBroker(node_id=peer.id, host=peer.address.host, port=peer.address.port)
                for peer in self._cluster
            ],
            topics=topics,
        )


@asynccontextmanager
async def scripted_brokers(count: int = 1, world: World | None = None) -> AsyncIterator[list[ScriptedBroker]]:
    """Node ids count from 1. In a simulated world, or else on real sockets."""
    cluster: list[ScriptedBroker] = []
    servers = []
    try:
        for number in range(1, count + 1):
            broker = ScriptedBroker(cluster, number)
            host = "127.0.0.1" if world is None else f"broker{number}"
            server = Server(SocketNetwork() if world is None else world.network.host(host), broker.handle)
            broker.address = await server.listen("TEST", host, 0)
            cluster.append(broker)
            servers.append(server)
        yield cluster
    finally:
        for server in servers:
            await server.stop(grace_seconds=0)


async def client_of(*addresses: Address, settings: Settings = IMPATIENT) -> Client:
    return await Client.connect(addresses, settings, network=SocketNetwork())
