"""Sends the machine's requests, one at a time: a thin shell over the client."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf
from typing import Any

from cordwood.client.admin.coordinators import CoordinatorKind, find_coordinators
from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError, ClientError
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.producer.transactions.requests import Ask, To

_KINDS = {To.TRANSACTION_COORDINATOR: CoordinatorKind.TRANSACTION, To.GROUP_COORDINATOR: CoordinatorKind.GROUP}
_FEATURE = "transaction.version"


class TransactionDriver:
    """`run` is a task of the producer; call `wake` after calling the machine or completing a batch.

    `has_incomplete` returns whether batches are unsent or unacknowledged. `on_change` is called (without the lock)
    after each response: the sender may have more to do. The machine is called under `lock`.
    """

    def __init__(
        self,
        client: Client,
        machine: Transactions,
        *,
        lock: AbstractContextManager[Any],
        has_incomplete: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._machine = machine
        self._lock = lock
        self._has_incomplete = has_incomplete
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._coordinators: dict[tuple[To, str], int] = {}

    def wake(self) -> None:
        """Called in the loop's thread."""
        self._woken.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            self._woken.clear()
            now_s = self._loop.time()
            with self._lock:
                ask = self._machine.next_ask(now_s, has_incomplete=self._has_incomplete())
                next_check_s = self._machine.next_check_s(now_s)
            if ask is None:
                await self._sleep(next_check_s)
            else:
                await self._perform(ask)
                self._on_change()

    async def _sleep(self, until_s: float) -> None:
        timer = None if until_s == inf else self._loop.call_at(until_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _perform(self, ask: Ask) -> None:
        try:
            connection = await self._coordinator(ask)
            self._learn_version(connection)
            response = await connection.ask(ask.request, at_least=ask.at_least, at_most=ask.at_most)
        except ClientError as error:
            with self._lock:
                self._machine.failed(ask, error, self._loop.time())
        else:
            with self._lock:
                self._machine.answered(ask, response, self._loop.time())

    async def _coordinator(self, ask: Ask) -> BrokerConnection:
        """Raises a `ClientError`."""
        key = ask.to, ask.key
        if ask.look_up:
            self._coordinators.pop(key, None)
        if key not in self._coordinators:
            found = (await find_coordinators(self._client, _KINDS[ask.to], [ask.key]))[ask.key]
            if isinstance(found, BrokerError):
                raise found
            self._coordinators[key] = found
        return await self._client.broker(self._coordinators[key])

    def _learn_version(self, connection: BrokerConnection) -> None:
        versions = connection.versions
        level = versions.finalized_features.get(_FEATURE, 0)
        with self._lock:
            self._machine.learn_version(level, versions.finalized_features_epoch)
