"""Wraps the connections of `net`, so that failures are `ClientError`s."""

from collections.abc import Callable
from typing import Any

from cordwood.client.errors import BadAnswer, BadSetting, BrokerError, ClientError, NetworkFailed, UnsupportedByBroker
from cordwood.client.settings import Settings
from cordwood.net.peers.connection import PeerConnection
from cordwood.net.peers.connections import Connections
from cordwood.net.peers.exceptions import (
    ConnectionFailed,
    MalformedResponse,
    PeerError,
    PeerRefused,
    Unencodable,
    UnsupportedByPeer,
)
from cordwood.net.peers.versions import PeerVersions
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.wire.schema import Request, ResponseT


class BrokerVersions(PeerVersions):
    """`best` raises `UnsupportedByBroker`."""

    whose = "the broker"

    def best(self, request: type[Request[Any]], *, at_least: int = 0, at_most: int | None = None) -> int:
        try:
            return super().best(request, at_least=at_least, at_most=at_most)
        except UnsupportedByPeer as error:
            raise client_error(error) from error


class BrokerConnection(PeerConnection):
    """A connection whose methods raise `NetworkFailed`, `UnsupportedByBroker`, `BadAnswer` and `BadSetting`."""

    versions_type = BrokerVersions

    async def ask(
        self,
        request: Request[ResponseT],
        *,
        at_least: int = 0,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> ResponseT:
        try:
            return await super().ask(request, at_least=at_least, at_most=at_most, timeout_ms=timeout_ms)
        except PeerError as error:
            raise client_error(error) from error

    async def until_fit(self) -> None:
        try:
            await super().until_fit()
        except PeerError as error:
            raise client_error(error) from error

    def start(
        self,
        request: Request[ResponseT],
        on_answer: Callable[[ResponseT | ClientError], None],
        *,
        at_most: int | None = None,
    ) -> None:
        """Sends at once, so that requests go out in the order of calls; `on_answer` is called once, later.

        For callers that check `is_fit` first, and call `abort` when a response is overdue.
        """

        def answered(outcome: ResponseT | PeerError) -> None:
            on_answer(client_error(outcome) if isinstance(outcome, PeerError) else outcome)

        try:
            self._start(request, answered, at_most=at_most)
        except PeerError as error:
            raise client_error(error) from error

    def start_only(self, request: Request[Any], *, at_most: int | None = None) -> None:
        try:
            super().start_only(request, at_most=at_most)
        except PeerError as error:
            raise client_error(error) from error

    async def until_read(self) -> None:
        try:
            await super().until_read()
        except PeerError as error:
            raise client_error(error) from error


class BrokerConnections(Connections[BrokerConnection]):
    def __init__(self, network: Network, settings: Settings, random: Random) -> None:
        super().__init__(BrokerConnection, network, settings, random)

    async def to(self, address: Address) -> BrokerConnection:
        try:
            return await super().to(address)
        except PeerError as error:
            raise client_error(error) from error


def client_error(error: PeerError) -> ClientError:
    """Converts a failure to a `ClientError`."""
    if isinstance(error, PeerRefused):
        return BrokerError(error.code)
    for kind, ours in _CLIENT_ERRORS.items():
        if isinstance(error, kind):
            return ours(str(error))
    raise AssertionError(f"no ClientError for {error!r}")


_CLIENT_ERRORS: dict[type[PeerError], type[ClientError]] = {
    ConnectionFailed: NetworkFailed,
    UnsupportedByPeer: UnsupportedByBroker,
    MalformedResponse: BadAnswer,
    # A value from the application that was not validated before.
    Unencodable: BadSetting,
}
