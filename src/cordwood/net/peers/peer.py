"""Another node, as a broker or a controller asks it: a request in, its response out.

peer = Peer(network, ConnectionSettings(client_id="broker-1"), random, Address("broker-2", 9092))
response = await peer.send(WriteTxnMarkersRequest(...), timeout_ms=30_000)
"""

import asyncio

from cordwood.net.peers.connection import PeerConnection
from cordwood.net.peers.connections import Connections
from cordwood.net.peers.exceptions import Unreachable
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.wire.schema import Request, ResponseT


class Peer:
    """A remote node at an address that may change. It connects when a request is sent, and reconnects when one is sent
    after the connection was lost.

    Requests are in flight together and leave in the order of the calls. When the connection breaks, all of them fail
    at once. After a failure to connect, requests fail at once until the back-off is over (`reconnect_backoff_ms`,
    doubled with each failure up to `reconnect_backoff_max_ms`, give or take a fifth).
    """

    def __init__(
        self, network: Network, settings: ConnectionSettings, random: Random, address: Address | None = None
    ) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(PeerConnection, network, settings, random)
        self._address = address
        self._closed = False

    @property
    def address(self) -> Address | None:
        """None while the node's address is unknown."""
        return self._address

    def move(self, address: Address | None) -> None:
        """Changes the node's address. Requests in flight to another address fail."""
        if address != self._address:
            if self._address is not None:
                self._connections.forget(self._address)
            self._address = address

    @property
    def is_connected(self) -> bool:
        return self._address is not None and self._connections.opened(self._address) is not None

    async def until_disconnected(self) -> None:
        """Returns when the connection that is open now is lost, at once if none is."""
        connection = None if self._address is None else self._connections.opened(self._address)
        if connection is not None:
            await connection.until_lost()

    @property
    def backoff_s(self) -> float:
        """The time until a request may be sent again after a failure to connect; 0.0 if it may be sent now."""
        return 0.0 if self._address is None else self._connections.backoff_s(self._address)

    async def send(
        self,
        request: Request[ResponseT],
        timeout_ms: int | None = None,
        *,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> ResponseT:
        """Returns the response, in the newest version that both sides have and that lies within the bounds.

        `timeout_ms`, or `request_timeout_ms`, includes the time that it takes to connect. If a node does not answer in
        time the connection is closed, as in Kafka, since later responses would wait behind this one. Raises
        `PeerError`: `Unreachable` for a request that was not sent.
        """
        timeout_s = (self._settings.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = self._loop.time() + timeout_s
        connection = await self._ready(timeout_s)
        left_ms = max(0, round((deadline - self._loop.time()) * 1000))
        return await connection.ask(request, at_least=at_least, at_most=at_most, timeout_ms=left_ms)

    async def close(self) -> None:
        """Requests in flight, and later ones, fail."""
        self._closed = True
        if self._address is not None:
            self._connections.forget(self._address)
        await self._connections.close()

    async def _ready(self, timeout_s: float) -> PeerConnection:
        """The connection, once it is open and the node does not ask us to hold back."""
        address = self._address
        if address is None or self._closed:
            raise Unreachable(
                "the node's address is not known" if address is None else f"the connection to {address} was closed"
            )
        connection = self._connections.opened(address)
        if connection is not None and connection.is_fit:
            return connection
        backoff_s = self._connections.backoff_s(address)
        if backoff_s > 0:
            raise Unreachable(f"{self._connections.failure(address)}; next attempt in {backoff_s * 1000:.0f} ms")
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connections.to(address)
                await connection.until_unmuted()
                return connection
        except TimeoutError as error:
            raise Unreachable(f"nothing could be sent to {address} within {timeout_s:g} s") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not this task but the attempt to connect was cancelled: by `move` or `close`.
            raise Unreachable(f"the attempt to connect to {address} was given up") from None
