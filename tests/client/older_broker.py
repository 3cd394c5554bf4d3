"""A broker as old as one likes: a node of ours behind a relay that lets no newer request through.

with older_broker(KAFKA_2_8) as broker:
    Producer(bootstrap_servers=broker.bootstrap)
"""

import socket
import struct
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cordwood.testing
from cordwood.client.blocking.portal import Portal
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.peers.channel import Channel
from cordwood.net.server import Server
from cordwood.net.serving import Answer, BadRequest
from cordwood.runtime.network import Address, Part
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.frames import encode_response
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

# The newest version of each API that a broker of that release lists; the oldest is 0.
KAFKA_2_8: Mapping[int, int] = (
    dict(enumerate([9, 12, 6, 11, 5, 3, 7, 3, 8, 7, 3, 7, 4, 4, 5, 5, 4, 1, 3, 7, 6, 2, 4, 4, 3, 3, 3, 1, 3, 2, 2, 2]))
    | {32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 3, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0}
    | {
        57: 0,
        60: 0,
        61: 0,
    }
)
KAFKA_3_3: Mapping[int, int] = dict(KAFKA_2_8) | {
    1: 13,
    2: 7,
    3: 12,
    9: 8,
    10: 4,
    11: 9,
    13: 5,
    29: 3,
    30: 3,
    31: 3,
    35: 4,
    57: 1,
    65: 0,
    66: 0,
}

_START = struct.Struct(">hhi")


class OlderBroker:
    def __init__(self, versions: Mapping[int, int]) -> None:
        self.bootstrap = ""
        self.too_new: list[tuple[int, int]] = []
        """Requests (key, version) that such a broker would not have understood."""
        self._versions = versions
        self._node = Address("", 0)
        self._server: Server | None = None
        self._channels: list[Channel] = []

    async def listen(self) -> int:
        self._server = Server(SocketNetwork(), self._handle)
        address = await self._server.listen("TEST", "127.0.0.1", 0)
        self.bootstrap = str(address)
        return address.port

    async def stand_before(self, node: Address) -> None:
        self._node = node

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.stop(grace_seconds=0)
        for channel in self._channels:
            channel.abort()

    def _handle(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        key, version, correlation_id = _START.unpack_from(frame)
        is_known = 0 <= version <= self._versions.get(key, -1)
        if key == ApiVersionsRequest.api_key:
            told = ApiVersionsResponse(
                error_code=0 if is_known else 35,
                api_keys=[
                    ApiVersion(api_key=listed, min_version=0, max_version=newest)
                    for listed, newest in self._versions.items()
                    if is_known or listed == key
                ],
            )
            return [encode_response(told, version if is_known else 0, correlation_id)]
        if not is_known:
            self.too_new.append((key, version))
            raise BadRequest(f"version {version} of {key} is not known here")
        return self._pass_on(frame, correlation_id, connection)

    def _pass_on(
        self, frame: bytearray, correlation_id: int, connection: ConnectionInfo
    ) -> Coroutine[Any, Any, list[Part] | None]:
        async def ask() -> list[Part]:
            if connection.state is None:
                connection.state = await Channel.open(SocketNetwork(), self._node.host, self._node.port)
                self._channels.append(connection.state)
            channel: Channel = connection.state
            answer = await channel.exchange([struct.pack(">i", len(frame)), frame], correlation_id)
            return [struct.pack(">i", len(answer)), answer]

        return ask()


@contextmanager
def older_broker(versions: Mapping[int, int]) -> Iterator[OlderBroker]:
    portal = Portal("the relay")
    broker = OlderBroker(versions)
    try:
        port = portal.run(broker.listen())
        node_port = _free_port()
        portal.run(broker.stand_before(Address("127.0.0.1", node_port)))
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with cordwood.testing.node(settings=advertised, port=node_port):
            yield broker
        portal.run(broker.stop())
    finally:
        portal.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
