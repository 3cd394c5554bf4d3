"""The origin of a request: the connection that it came on, as handlers and authorizers see it."""

from collections.abc import Callable, Mapping
from typing import Any

from cordwood.net.principal import ANONYMOUS, Principal
from cordwood.runtime.network import Address, Connection


class ConnectionInfo:
    """The origin of a request, for handlers. A handler may attach its own per-connection state. `origin` combines
    everything that an authorizer may use: principal, peer host and listener.

    A handler of requests that are not urgent (heartbeats) sets `could_wait`: if a connection has no others, its
    requests are read together with those of other such connections, some milliseconds late.
    """

    __slots__ = (
        "_close_listeners",
        "_connection",
        "could_wait",
        "id",
        "is_closed",
        "listener",
        "local",
        "origin",
        "peer",
        "principal",
        "state",
    )

    def __init__(self, connection: Connection, listener: str, number: int) -> None:
        self._connection = connection
        self.id = number
        self.listener = listener
        self.peer: Address = connection.peer
        self.local: Address = connection.local
        self.state: Any = None
        self.could_wait = False
        self.is_closed = False
        self._close_listeners: list[Callable[[], None]] | None = None
        self.become(ANONYMOUS)

    def become(self, principal: Principal) -> None:
        """Has this principal from now on: its peer has been authenticated."""
        self.principal = principal
        self.origin = _origin(*map(str, principal), self.peer.host, self.listener)

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self._connection.peer_certificate

    def when_closed(self, listener: Callable[[], None]) -> None:
        """Calls the listener once the connection has closed; at once if it already has."""
        if self.is_closed:
            listener()
        elif self._close_listeners is None:
            self._close_listeners = [listener]
        else:
            self._close_listeners.append(listener)

    def closed(self) -> None:
        self.is_closed = True
        listeners, self._close_listeners = self._close_listeners, None
        for listener in listeners or ():
            listener()

    def __str__(self) -> str:
        return f"{self.peer} on {self.listener}"


def _origin(*parts: str) -> bytes:
    """Different parts give different results, for any content."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)
