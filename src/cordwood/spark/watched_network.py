"""**WatchedNetwork**: a network that reports which brokers cannot be reached or do not answer, and which have
recovered. The client retries silently; the user of a pipeline should see what it waits for.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from cordwood.runtime.network import (
    Address,
    Connection,
    ConnectionLost,
    Listener,
    Network,
    NetworkError,
    Part,
    SocketOptions,
)
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.runtime.transport.connection_wrapper import ConnectionWrapper
from cordwood.spark.reports import is_heard, report

UNREACHABLE, REACHED = "unreachable", "reached"
# An address that drops packets fails only after socket.connection.setup.timeout.ms.
_LATE_S = 3.0
# Longer than a broker takes to answer anything that pipelines ask, a Fetch that waits for records included.
_HANGS_S = 10.0


def network_for(doing: str) -> Network:
    """`doing` is the operation that waits for brokers: reading, writing, committing."""
    return WatchedNetwork(SocketNetwork(), doing) if is_heard() else SocketNetwork()


class WatchedNetwork:
    def __init__(self, network: Network, doing: str, tell: Callable[..., None] = report) -> None:
        self._network = network
        self._doing = doing
        self._tell = tell
        self._failed: set[Address] = set()

    async def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Connection], None],
        tls: ServerTls | None = None,
        options: SocketOptions | None = None,
    ) -> Listener:
        return await self._network.listen(host, port, accept, tls, options)

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        address = Address(host, port)
        late = asyncio.get_running_loop().call_later(
            _LATE_S, self._note_failure, address, f"cannot connect to {address}: no answer yet"
        )
        try:
            connection = await self._network.connect(host, port, tls, options)
        except NetworkError as error:
            self._note_failure(address, str(error))
            raise
        finally:
            late.cancel()
        return _WatchedConnection(connection, partial(self._note_hanging, address), partial(self._note_answer, address))

    def _note_hanging(self, address: Address, seconds: float) -> None:
        self._note_failure(address, f"{address} accepts connections, and has not answered for {seconds:g} s")

    def _note_answer(self, address: Address) -> None:
        if address in self._failed:
            self._failed.discard(address)
            self._tell(REACHED, address=str(address))

    def _note_failure(self, address: Address, reason: str) -> None:
        self._failed.add(address)
        self._tell(UNREACHABLE, address=str(address), reason=reason, doing=self._doing)


class _WatchedConnection(ConnectionWrapper):
    """Calls `hangs` every some seconds while a request is not answered, and `answers` when bytes come."""

    def __init__(self, connection: Connection, hangs: Callable[[float], None], answers: Callable[[], None]) -> None:
        super().__init__(connection)
        self._hangs = hangs
        self._answers = answers
        self._timer: asyncio.TimerHandle | None = None
        self._waited_s = 0.0

    def send(self, parts: Sequence[Part]) -> None:
        if self._timer is None:
            self._wait()
        super().send(parts)

    def received(self, count: int) -> None:
        self._stop_waiting()
        self._answers()
        super().received(count)

    def lost(self, error: ConnectionLost | None) -> None:
        self._stop_waiting()
        super().lost(error)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_HANGS_S, self._note)

    def _note(self) -> None:
        self._waited_s += _HANGS_S
        self._hangs(self._waited_s)
        self._wait()

    def _stop_waiting(self) -> None:
        self._waited_s = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
