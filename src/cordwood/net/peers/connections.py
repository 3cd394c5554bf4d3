"""The connections that a client or a node holds to others, one to an address."""

import asyncio
from typing import Generic, NamedTuple, TypeVar

from cordwood.net.peers.backoff import Backoff
from cordwood.net.peers.connection import PeerConnection
from cordwood.net.peers.exceptions import PeerError
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random

C = TypeVar("C", bound=PeerConnection)


class _Failure(NamedTuple):
    in_a_row: int
    not_before: float
    """The loop time at which the address may be tried again."""
    error: PeerError


class Connections(Generic[C]):
    """One connection to an address, opened on first use, and again after it was lost or closed as idle."""

    def __init__(self, kind: type[C], network: Network, settings: ConnectionSettings, random: Random) -> None:
        self._kind = kind
        self._network = network
        self._settings = settings
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random)
        # A peer behind a slow link gets more time with each failure (KIP-601).
        self._setup = Backoff(
            settings.socket_connection_setup_timeout_ms, settings.socket_connection_setup_timeout_max_ms, random
        )
        self._loop = asyncio.get_running_loop()
        self._open: dict[Address, C] = {}
        self._opening: dict[Address, asyncio.Task[C]] = {}
        # Lost, with something that may not have been read.
        self._unread: list[C] = []
        self._failed: dict[Address, _Failure] = {}
        self._idle_check: asyncio.TimerHandle | None = None

    def opened(self, address: Address) -> C | None:
        connection = self._open.get(address)
        return None if connection is None or connection.is_lost else connection

    def backoff_s(self, address: Address) -> float:
        """The time until an address that failed may be tried again; 0.0 if it may be tried now."""
        failure = self._failed.get(address)
        return 0.0 if failure is None else max(0.0, failure.not_before - self._loop.time())

    def failure(self, address: Address) -> PeerError | None:
        """Why the last attempt to connect failed; None if it did not."""
        failure = self._failed.get(address)
        return None if failure is None else failure.error

    async def to(self, address: Address) -> C:
        """Raises the errors of `PeerConnection.open`; after a failure it waits before the next attempt."""
        connection = self.opened(address)
        if connection is not None:
            return connection
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = self._loop.create_task(self._dial(address))
            opening.add_done_callback(lambda task: self._finish(address, task))
        # Several callers may wait for it; one that is cancelled does not affect the others.
        return await asyncio.shield(opening)

    def drop(self) -> None:
        """Closes all connections; requests in flight fail."""
        for address in list(self._open):
            self.forget(address)

    def forget(self, address: Address) -> None:
        """Closes the connection to this address, or stops opening it; waiting callers fail."""
        self._failed.pop(address, None)
        opening = self._opening.pop(address, None)
        if opening is not None:
            opening.cancel()
        connection = self._open.get(address)
        if connection is not None:
            connection.abort()
            self._remove(address)

    async def until_read(self) -> None:
        """Like `PeerConnection.until_read`, for all connections, including those lost since the last call."""
        unread, self._unread = self._unread, []
        for connection in [*unread, *self._open.values()]:
            await connection.until_read()

    async def close(self) -> None:
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        if self._idle_check is not None:
            self._idle_check.cancel()
            self._idle_check = None

    async def _dial(self, address: Address) -> C:
        await asyncio.sleep(self.backoff_s(address))
        failures = self._failed[address].in_a_row if address in self._failed else 0
        try:
            setup_s = self._setup.pause_s(failures + 1)
            connection = await self._kind.open(self._network, address, self._settings, setup_s)
        except PeerError as error:
            not_before = self._loop.time() + self._backoff.pause_s(failures + 1)
            self._failed[address] = _Failure(failures + 1, not_before, error)
            raise
        self._failed.pop(address, None)
        self._remove(address)
        self._open[address] = connection
        self._check_idle_later()
        return connection

    def _remove(self, address: Address) -> None:
        connection = self._open.pop(address, None)
        if connection is not None and connection.is_lost and connection.has_unanswered:
            self._unread.append(connection)

    def _finish(self, address: Address, opening: asyncio.Task[C]) -> None:
        if self._opening.get(address) is opening:
            del self._opening[address]
        if not opening.cancelled():
            # The waiting callers have the error; without any, it can be ignored.
            opening.exception()

    def _check_idle_later(self) -> None:
        """Schedules a check for the time when the longest idle connection expires."""
        max_idle_s = self._settings.connections_max_idle_ms / 1000
        if self._idle_check is None and self._open and max_idle_s >= 0:
            oldest = min(connection.idle_since for connection in self._open.values())
            self._idle_check = self._loop.call_at(oldest + max_idle_s, self._close_idle)

    def _close_idle(self) -> None:
        self._idle_check = None
        idle_before = self._loop.time() - self._settings.connections_max_idle_ms / 1000
        for address, connection in list(self._open.items()):
            if connection.is_lost or (connection.idle_since <= idle_before and not connection.in_flight):
                self._remove(address)
                connection.close()
        self._check_idle_later()
