"""A connection to one node whose versions are known.

connection = await PeerConnection.open(network, Address("localhost", 9092), ConnectionSettings())
response = await connection.ask(MetadataRequest())
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from cordwood import __version__
from cordwood.net.peers.channel import Channel, RequestTimedOut
from cordwood.net.peers.exceptions import (
    Disconnected,
    MalformedResponse,
    PeerError,
    Unencodable,
    Unreachable,
    UnsupportedByPeer,
)
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.net.peers.versions import PeerVersions, read_api_versions
from cordwood.runtime.network import Address, CannotConnect, ConnectionLost, Network, NetworkError, SocketOptions
from cordwood.wire.exceptions import DecodeError, EncodeError, UnsupportedVersion
from cordwood.wire.frames import decode_response, encode_request_parts
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.schema import Request, ResponseT

_SOFTWARE = "cordwood"
# Alert and handshake, of any version.
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
_LEAST_TEXT_BYTES = 4


class PeerConnection:
    """Created by `open`. Any number of requests may be in flight; responses come in the order of requests."""

    versions_type: type[PeerVersions] = PeerVersions

    def __init__(self, channel: Channel, versions: ApiVersionsResponse, settings: ConnectionSettings) -> None:
        self.versions = self.versions_type(versions)
        self._channel = channel
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.has_unanswered = False
        """True if a request was sent that has no response, and may not have been read yet."""
        self._muted_until = 0.0
        self._used_at = self._loop.time()
        self._closed = False

    @classmethod
    async def open(
        cls, network: Network, address: Address, settings: ConnectionSettings, setup_s: float | None = None
    ) -> Self:
        """Connects and gets the peer's versions. Raises `Unreachable`, or an error if the response is invalid."""
        if setup_s is None:
            setup_s = settings.socket_connection_setup_timeout_ms / 1000
        try:
            channel = await Channel.open(
                network,
                address.host,
                address.port,
                client_id=settings.client_id,
                tls=settings.tls,
                options=SocketOptions(settings.send_buffer_bytes, settings.receive_buffer_bytes),
                timeout_s=setup_s,
            )
        except CannotConnect as error:
            raise Unreachable(str(error)) from error
        try:
            versions = await _learn_versions(channel, settings)
        except NetworkError as error:
            channel.abort()
            hint = _hint(error, channel.first_bytes, has_tls=settings.tls is not None)
            raise Unreachable(f"{address} does not answer as a Kafka broker: {error}{hint}") from error
        except BaseException:
            channel.abort()
            raise
        return cls(channel, versions, settings)

    @property
    def is_lost(self) -> bool:
        return self._closed or self._channel.lost_error is not None

    async def until_lost(self) -> None:
        await self._channel.until_lost()

    @property
    def in_flight(self) -> int:
        return self._channel.in_flight

    @property
    def idle_since(self) -> float:
        """The loop time since which it is idle. A connection with a request in flight is not idle."""
        return self._loop.time() if self._channel.in_flight else self._used_at

    async def ask(
        self,
        request: Request[ResponseT],
        *,
        at_least: int = 0,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> ResponseT:
        """Asks in the newest version both sides have. Raises `PeerError`."""
        version = self.versions.best(type(request), at_least=at_least, at_most=at_most)
        await self.until_unmuted()
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            response = await self._channel.request(request, version, timeout_ms / 1000)
        except RequestTimedOut as error:
            # Responses come in order, so all later requests would wait behind this one. As Kafka's clients do.
            self.abort()
            raise Disconnected(str(error)) from error
        except NetworkError as error:
            raise Disconnected(str(error)) from error
        except DecodeError as error:
            raise MalformedResponse(f"{self._channel.peer}: {error}") from error
        except UnsupportedVersion as error:
            raise UnsupportedByPeer(
                f"{self.versions.whose}'s version {version} cannot encode this request: {error}"
            ) from error
        except EncodeError as error:
            raise Unencodable(f"this request cannot be sent to a broker: {error}") from error
        finally:
            self._used_at = self._loop.time()
        self._mute(getattr(response, "throttle_time_ms", 0))
        return response

    @property
    def is_fit(self) -> bool:
        """True if a request may be sent at once: the connection is open, not throttled, and has little unsent data."""
        return not self.is_lost and self._muted_until <= self._loop.time() and self._channel.has_room

    async def until_fit(self) -> None:
        """Raises `Disconnected`; also for a peer that does not read unsent data within `request_timeout_ms`."""
        timeout_s = self._settings.request_timeout_ms / 1000
        while not self.is_fit:
            await self.until_unmuted()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._channel.room()
            except TimeoutError as error:
                self.abort()
                raise Disconnected(f"{self._channel.peer} has not read the data sent within {timeout_s:g} s") from error
            except NetworkError as error:
                raise Disconnected(str(error)) from error

    def _start(
        self,
        request: Request[ResponseT],
        on_answer: Callable[[ResponseT | PeerError], None],
        *,
        at_most: int | None = None,
    ) -> None:
        """Sends at once, so that requests go in the order of the calls; `on_answer` is called once, later.

        For callers that check `is_fit` first, and call `abort` when a response is overdue. Raises `UnsupportedByPeer`.
        """
        version = self._best(request, at_most)
        try:
            response = self._channel.start(request, version)
        except UnsupportedVersion as error:
            raise UnsupportedByPeer(
                f"{self.versions.whose}'s version {version} cannot encode this request: {error}"
            ) from error
        self._used_at = self._loop.time()
        response.add_done_callback(lambda done: on_answer(self._read(type(request), version, done)))

    def start_only(self, request: Request[Any], *, at_most: int | None = None) -> None:
        """Sends a request without a response at once. Raises `UnsupportedByPeer` or `Disconnected`."""
        version = self._best(request, at_most)
        self._used_at = self._loop.time()
        self.has_unanswered = True
        try:
            self._channel.start_only(request, version)
        except NetworkError as error:
            raise Disconnected(str(error)) from error

    def _best(self, request: Request[Any], at_most: int | None) -> int:
        return self.versions.best(type(request), at_most=at_most)

    def _read(self, kind: type[Request[Any]], version: int, done: "asyncio.Future[bytearray]") -> Any:
        self._used_at = self._loop.time()
        if done.cancelled():
            return Disconnected(f"the connection to {self._channel.peer} is closed")
        error = done.exception()
        if error is not None:
            return Disconnected(str(error))
        try:
            _, response = decode_response(kind.response, version, done.result())
        except DecodeError as error:
            return MalformedResponse(f"{self._channel.peer}: {error}")
        self._mute(getattr(response, "throttle_time_ms", 0))
        return response

    async def until_read(self) -> None:
        """Waits until the peer has read all requests without a response: it reads in order, and answers a later
        request. Raises `Disconnected` if it closes the connection instead, which is how brokers reject a Produce with
        acks=0."""
        if not self.has_unanswered:
            return
        # A loss is reported once.
        self.has_unanswered = False
        if self.is_lost:
            raise Disconnected(f"{self._channel.peer} closed the connection; unacknowledged requests may be lost")
        await self.ask(ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__))

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def abort(self) -> None:
        """Requests in flight fail."""
        self._closed = True
        self._channel.abort()

    def _mute(self, throttle_time_ms: int) -> None:
        """Handles a throttle time in a response: we exceed the peer's quota (KIP-219)."""
        if throttle_time_ms > 0:
            self._muted_until = max(self._muted_until, self._loop.time() + throttle_time_ms / 1000)

    async def until_unmuted(self) -> None:
        """Waits until a throttle by the peer is over. Raises `Disconnected`."""
        while (pause_s := self._muted_until - self._loop.time()) > 0 and not self.is_lost:
            try:
                async with asyncio.timeout(pause_s):
                    await self._channel.until_lost()
            except TimeoutError:
                pass
        if self._closed:
            raise Disconnected(f"the connection to {self._channel.peer} is closed")


def _hint(error: NetworkError, first_bytes: bytes, *, has_tls: bool) -> str:
    """A guess at the kind of peer, for error messages."""
    is_tls = first_bytes[:2] in _TLS_RECORDS
    if not has_tls and (is_tls or (not first_bytes and isinstance(error, ConnectionLost))):
        return " (is it a TLS listener?)"
    line = first_bytes.split(b"\r")[0].split(b"\n")[0]
    return f" (it says {line.decode()!r})" if len(line) >= _LEAST_TEXT_BYTES and line.isascii() else ""


async def _learn_versions(channel: Channel, settings: ConnectionSettings) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__)
    version = ApiVersionsRequest.stable_versions.high
    while True:
        # The response to an unsupported version is in version 0, so it is decoded here.
        correlation_id = version
        parts = encode_request_parts(request, version, correlation_id, settings.client_id)
        answer = read_api_versions(await channel.exchange(parts, correlation_id), version)
        if isinstance(answer, ApiVersionsResponse):
            return answer
        version = answer
