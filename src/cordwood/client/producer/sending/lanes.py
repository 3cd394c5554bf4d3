"""The lanes to the brokers: their readiness for a request, and the number of requests in flight."""

import asyncio
from collections.abc import Callable

from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import ClientError


class Lane:
    """The lane to one broker. If it isn't usable, a background task fixes that; `on_change` follows, with the error if
    there is one."""

    def __init__(
        self, client: Client, broker_id: int, max_in_flight: int, on_change: Callable[[ClientError | None], None]
    ) -> None:
        self.in_flight = 0
        self._client = client
        self._broker_id = broker_id
        self._max_in_flight = max_in_flight
        self._on_change = on_change
        self._mending: asyncio.Task[None] | None = None

    def fit_connection(self) -> BrokerConnection | None:
        """Returns a connection on which a request can be sent at once."""
        if self.in_flight >= self._max_in_flight:
            return None
        connection = self._client.opened(self._broker_id)
        if connection is not None and connection.is_fit:
            return connection
        if self._mending is None:
            self._mending = asyncio.get_running_loop().create_task(self._mend())
            self._mending.add_done_callback(self._mended)
        return None

    def close(self) -> None:
        if self._mending is not None:
            self._mending.cancel()

    async def _mend(self) -> None:
        """Connects, with back-off, or waits for room, or for the end of a throttle."""
        await (await self._client.broker(self._broker_id)).until_fit()

    def _mended(self, task: "asyncio.Task[None]") -> None:
        self._mending = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, ClientError):
            raise error
        self._on_change(error)
