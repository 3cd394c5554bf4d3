"""A connection to one broker whose versions are known, and the set of them that a client holds."""

import asyncio
from collections.abc import Callable
from typing import Any

from cordwood import __version__
from cordwood.client.backoff import Backoff
from cordwood.client.errors import BadAnswer, BadSetting, ClientError, NetworkFailed, UnsupportedByBroker
from cordwood.client.settings import Settings
from cordwood.client.versions import BrokerVersions, read_api_versions
from cordwood.net.channel import Channel, RequestTimedOut
from cordwood.runtime.network import Address, CannotConnect, ConnectionLost, Network, NetworkError, SocketOptions
from cordwood.runtime.randomness import Random
from cordwood.wire.exceptions import DecodeError, EncodeError, UnsupportedVersion
from cordwood.wire.frames import decode_response, encode_request_parts
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.schema import Request, ResponseT

_SOFTWARE = "cordwood"
# Alert and handshake, of any version.
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
_LEAST_TEXT_BYTES = 4


class BrokerConnection:
    """`open` makes it. Any number of requests may be in flight; their responses come in their order."""

    def __init__(self, channel: Channel, versions: BrokerVersions, settings: Settings) -> None:
        self.versions = versions
        self._channel = channel
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.has_unanswered = False
        """Whether something was sent that is not answered, and may not have been read yet."""
        self._muted_until = 0.0
        self._used_at = self._loop.time()
        self._closed = False

    @classmethod
    async def open(
        cls, network: Network, address: Address, settings: Settings, setup_s: float | None = None
    ) -> "BrokerConnection":
        """Connects and learns the broker's versions. Raises `NetworkFailed`, or what is wrong with its answer."""
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
            raise NetworkFailed(str(error)) from error
        try:
            versions = await _learn_versions(channel, settings)
        except NetworkError as error:
            channel.abort()
            hint = _hint(error, channel.first_bytes, has_tls=settings.tls is not None)
            raise NetworkFailed(f"{address} does not answer as a Kafka broker: {error}{hint}") from error
        except BaseException:
            channel.abort()
            raise
        return cls(channel, versions, settings)

    @property
    def is_lost(self) -> bool:
        return self._closed or self._channel.lost_error is not None

    @property
    def in_flight(self) -> int:
        return self._channel.in_flight

    @property
    def idle_since(self) -> float:
        """By the loop's time. Who waits for a response is not idle."""
        return self._loop.time() if self._channel.in_flight else self._used_at

    async def ask(
        self,
        request: Request[ResponseT],
        *,
        at_least: int = 0,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> ResponseT:
        """In the newest version both sides have. Raises `NetworkFailed`, `UnsupportedByBroker`, `BadAnswer`."""
        version = self.versions.best(type(request), at_least=at_least, at_most=at_most)
        await self._wait_until_fit()
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            response = await self._channel.request(request, version, timeout_ms / 1000)
        except RequestTimedOut as error:
            # Responses come in order: all that was asked later would wait behind this one. As Kafka's clients do.
            self.abort()
            raise NetworkFailed(str(error)) from error
        except NetworkError as error:
            raise NetworkFailed(str(error)) from error
        except DecodeError as error:
            raise BadAnswer(f"{self._channel.peer}: {error}") from error
        except UnsupportedVersion as error:
            raise UnsupportedByBroker(f"the broker's version {version} cannot say this: {error}") from error
        except EncodeError as error:
            # What an application gave, and nothing has looked at before.
            raise BadSetting(f"this cannot be said to a broker: {error}") from error
        finally:
            self._used_at = self._loop.time()
        self._mute(getattr(response, "throttle_time_ms", 0))
        return response

    @property
    def is_fit(self) -> bool:
        """Whether `start` may be called now: not lost, not asked to hold back, and not with too much unsent."""
        return not self.is_lost and self._muted_until <= self._loop.time() and self._channel.has_room

    async def until_fit(self) -> None:
        """Raises `NetworkFailed`; also for a broker that does not take what is unsent within `request_timeout_ms`."""
        timeout_s = self._settings.request_timeout_ms / 1000
        while not self.is_fit:
            await self._wait_until_fit()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._channel.room()
            except TimeoutError as error:
                self.abort()
                raise NetworkFailed(
                    f"{self._channel.peer} has not taken what was sent within {timeout_s:g} s"
                ) from error
            except NetworkError as error:
                raise NetworkFailed(str(error)) from error

    def start(
        self,
        request: Request[ResponseT],
        on_answer: Callable[[ResponseT | ClientError], None],
        *,
        at_most: int | None = None,
    ) -> None:
        """Sends at once, so that requests go in the order of the calls; `on_answer` is called once, later.

        For who looks at `is_fit` first, and calls `abort` when an answer is overdue. Raises `UnsupportedByBroker`.
        """
        version = self._best(request, at_most)
        try:
            response = self._channel.start(request, version)
        except UnsupportedVersion as error:
            raise UnsupportedByBroker(f"the broker's version {version} cannot say this: {error}") from error
        self._used_at = self._loop.time()
        response.add_done_callback(lambda done: on_answer(self._read(type(request), version, done)))

    def start_only(self, request: Request[Any], *, at_most: int | None = None) -> None:
        """As `start`, for what is not answered. Raises `NetworkFailed`, too."""
        version = self._best(request, at_most)
        self._used_at = self._loop.time()
        self.has_unanswered = True
        try:
            self._channel.start_only(request, version)
        except NetworkError as error:
            raise NetworkFailed(str(error)) from error

    def _best(self, request: Request[Any], at_most: int | None) -> int:
        return self.versions.best(type(request), at_most=at_most)

    def _read(self, kind: type[Request[Any]], version: int, done: "asyncio.Future[bytearray]") -> Any:
        self._used_at = self._loop.time()
        if done.cancelled():
            return NetworkFailed(f"the connection to {self._channel.peer} is closed")
        error = done.exception()
        if error is not None:
            return NetworkFailed(str(error))
        try:
            _, response = decode_response(kind.response, version, done.result())
        except DecodeError as error:
            return BadAnswer(f"{self._channel.peer}: {error}")
        self._mute(getattr(response, "throttle_time_ms", 0))
        return response

    async def until_read(self) -> None:
        """Until the broker has read all that it does not answer: it reads in order, and answers what comes behind.
        Raises `NetworkFailed` if it hung up instead, which is how brokers refuse a Produce with acks=0."""
        if not self.has_unanswered:
            return
        # A loss is told once.
        self.has_unanswered = False
        if self.is_lost:
            raise NetworkFailed(f"{self._channel.peer} hung up; what it was sent without acknowledgements may be lost")
        await self.ask(ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__))

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def abort(self) -> None:
        """What is in flight fails."""
        self._closed = True
        self._channel.abort()

    def _mute(self, throttle_time_ms: int) -> None:
        """A broker that is over its quota asks us to hold back (KIP-219)."""
        if throttle_time_ms > 0:
            self._muted_until = max(self._muted_until, self._loop.time() + throttle_time_ms / 1000)

    async def _wait_until_fit(self) -> None:
        while (pause_s := self._muted_until - self._loop.time()) > 0:
            await asyncio.sleep(pause_s)
        if self._closed:
            raise NetworkFailed(f"the connection to {self._channel.peer} is closed")


def _hint(error: NetworkError, first_bytes: bytes, *, has_tls: bool) -> str:
    """What the peer may be."""
    is_tls = first_bytes[:2] in _TLS_RECORDS
    if not has_tls and (is_tls or (not first_bytes and isinstance(error, ConnectionLost))):
        return " (is it a TLS listener?)"
    line = first_bytes.split(b"\r")[0].split(b"\n")[0]
    return f" (it says {line.decode()!r})" if len(line) >= _LEAST_TEXT_BYTES and line.isascii() else ""


async def _learn_versions(channel: Channel, settings: Settings) -> BrokerVersions:
    request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__)
    version = ApiVersionsRequest.stable_versions.high
    while True:
        # The answer to a version that the broker lacks is in version 0, so it is taken apart here.
        correlation_id = version
        parts = encode_request_parts(request, version, correlation_id, settings.client_id)
        answer = read_api_versions(await channel.exchange(parts, correlation_id), version)
        if isinstance(answer, BrokerVersions):
            return answer
        version = answer


class Connections:
    """One connection to an address, opened when it is first asked for, and again after it was lost or stood idle."""

    def __init__(self, network: Network, settings: Settings, random: Random) -> None:
        self._network = network
        self._settings = settings
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random)
        # A broker behind a slow link gets more time with each failure (KIP-601).
        self._setup = Backoff(
            settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms, random
        )
        self._loop = asyncio.get_running_loop()
        self._open: dict[Address, BrokerConnection] = {}
        self._opening: dict[Address, asyncio.Task[BrokerConnection]] = {}
        # Lost, with something that may not have been read.
        self._unread: list[BrokerConnection] = []
        # How often in a row an address failed, and when it may be tried again.
        self._failed: dict[Address, tuple[int, float]] = {}
        self._idle_check: asyncio.TimerHandle | None = None

    def opened(self, address: Address) -> BrokerConnection | None:
        connection = self._open.get(address)
        return None if connection is None or connection.is_lost else connection

    async def to(self, address: Address) -> BrokerConnection:
        """Raises what `BrokerConnection.open` does; after a failure it waits before it tries again."""
        connection = self.opened(address)
        if connection is not None:
            return connection
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = self._loop.create_task(self._dial(address))
            opening.add_done_callback(lambda task: self._finish(address, task))
        # Several may wait for it; that one of them gives up is no matter to the others.
        return await asyncio.shield(opening)

    def drop(self) -> None:
        """Nothing that is open is used any more; what is in flight fails."""
        for address, connection in list(self._open.items()):
            connection.abort()
            self._forget(address)

    async def until_read(self) -> None:
        """As that of each of them, also of those that were lost since the last time."""
        unread, self._unread = self._unread, []
        for connection in [*unread, *self._open.values()]:
            await connection.until_read()

    async def close(self) -> None:
        for opening in list(self._opening.values()):
            opening.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        if self._idle_check is not None:
            self._idle_check.cancel()
            self._idle_check = None

    async def _dial(self, address: Address) -> BrokerConnection:
        failures, not_before = self._failed.get(address, (0, 0.0))
        await asyncio.sleep(max(0.0, not_before - self._loop.time()))
        try:
            setup_s = self._setup.pause_s(failures + 1)
            connection = await BrokerConnection.open(self._network, address, self._settings, setup_s)
        except ClientError:
            failures += 1
            self._failed[address] = (failures, self._loop.time() + self._backoff.pause_s(failures))
            raise
        self._failed.pop(address, None)
        self._forget(address)
        self._open[address] = connection
        self._check_idle_later()
        return connection

    def _forget(self, address: Address) -> None:
        connection = self._open.pop(address, None)
        if connection is not None and connection.is_lost and connection.has_unanswered:
            self._unread.append(connection)

    def _finish(self, address: Address, opening: asyncio.Task[BrokerConnection]) -> None:
        del self._opening[address]
        if not opening.cancelled():
            # Whoever waited has been told; if nobody is left, it is no matter.
            opening.exception()

    def _check_idle_later(self) -> None:
        """When the one that has stood for longest may have stood for too long."""
        max_idle_s = self._settings.connections_max_idle_ms / 1000
        if self._idle_check is None and self._open and max_idle_s >= 0:
            oldest = min(connection.idle_since for connection in self._open.values())
            self._idle_check = self._loop.call_at(oldest + max_idle_s, self._close_idle)

    def _close_idle(self) -> None:
        self._idle_check = None
        idle_before = self._loop.time() - self._settings.connections_max_idle_ms / 1000
        for address, connection in list(self._open.items()):
            if connection.is_lost or (connection.idle_since <= idle_before and not connection.in_flight):
                self._forget(address)
                connection.close()
        self._check_idle_later()
