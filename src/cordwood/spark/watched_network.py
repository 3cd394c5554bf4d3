"""**WatchedNetwork**: a network that reports which brokers cannot be reached, and which can again.

The client retries by itself and in silence; whoever runs a pipeline should see what it waits for.
"""

import asyncio
from collections.abc import Callable

from cordwood.runtime.network import Address, Connection, Listener, Network, NetworkError, SocketOptions
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls, ServerTls
from cordwood.spark.reports import is_heard, report

UNREACHABLE, REACHED = "unreachable", "reached"
# An address that drops packets fails only after socket.connection.setup.timeout.ms.
_LATE_S = 3.0


def network_for(doing: str) -> Network:
    """`doing` is what waits for brokers: reading, writing, committing."""
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
        if address in self._failed:
            self._failed.discard(address)
            self._tell(REACHED, address=str(address))
        return connection

    def _note_failure(self, address: Address, reason: str) -> None:
        self._failed.add(address)
        self._tell(UNREACHABLE, address=str(address), reason=reason, doing=self._doing)
