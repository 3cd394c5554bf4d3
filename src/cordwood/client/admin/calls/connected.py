"""The base of all calls: a client that connects on first use."""

import asyncio
from types import TracebackType
from typing import Self

from cordwood.client.client import Client
from cordwood.client.errors import Closed, IllegalState
from cordwood.client.settings import Settings
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random, SeededRandom


class Connected:
    """Belongs to one event loop."""

    def __init__(self, settings: Settings, *, network: Network, random: Random | None = None) -> None:
        self._settings = settings
        self._network = network
        self._random = random if random is not None else SeededRandom()
        self._client: Client | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def start(self) -> None:
        """Connects; otherwise the first call does. Raises `CannotReachCluster` if no bootstrap address answers."""
        await self._connected()

    async def close(self) -> None:
        """Closes all connections; may be called more than once."""
        self._closed = True
        async with self._connecting:
            client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def client(self) -> Client:
        """The client for requests that have no method here. Raises `IllegalState` before `start`."""
        if self._client is None:
            raise IllegalState("not connected: await start(), or use async with")
        return self._client

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._closed:
                raise Closed("this admin client is closed")
            if self._client is None:
                self._client = await Client.connect(
                    self._settings.bootstrap_servers, self._settings, network=self._network, random=self._random
                )
            return self._client
