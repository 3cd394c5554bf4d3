"""Allocates producer ids from blocks that the controller assigns. A block is committed before any id of it is used, so
that no id is ever used twice, even after crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cordwood.broker.context import BrokerContext
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

_log = logging.getLogger(__name__)

# Request the next block when this many ids are left.
_AHEAD = 0.1
# How long a producer waits for a block before it must retry: the controller may be unreachable.
_PATIENCE_S = 1.0


class NoProducerIds(Exception):
    """The controller has assigned no block."""


class ProducerIds:
    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._block = range(0)
        self._next_block = range(0)
        self._ahead = 0
        self._allocation: asyncio.Task[bool] | None = None

    def take(self) -> int | None:
        """Returns an id; None if that would require waiting."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
            if not self._block:
                return None
            self._ahead = int(len(self._block) * _AHEAD)
        producer_id = self._block[0]
        self._block = self._block[1:]
        if len(self._block) <= self._ahead and not self._next_block:
            self._allocate()
        return producer_id

    @property
    def are_there(self) -> bool:
        """True if `take` has an id."""
        return bool(self._block or self._next_block)

    async def wait_for_more(self) -> None:
        """Waits until `are_there`. Raises `NoProducerIds`."""
        await self._wait_until(lambda: self.are_there)

    async def wait(self) -> int:
        """Returns an id, waiting for a block if necessary. Raises `NoProducerIds`."""
        taken: list[int] = []

        def take() -> bool:
            producer_id = self.take()
            if producer_id is not None:
                taken.append(producer_id)
            return bool(taken)

        await self._wait_until(take)
        return taken[0]

    async def _wait_until(self, is_done: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                # More producers may wait than a block has ids.
                while not is_done():
                    if not await asyncio.shield(self._allocate()):
                        raise NoProducerIds
        except TimeoutError:
            raise NoProducerIds from None

    def _allocate(self) -> asyncio.Task[bool]:
        if self._allocation is None:
            self._allocation = asyncio.get_running_loop().create_task(self._fetch_block())
        return self._allocation

    async def _fetch_block(self) -> bool:
        """Returns whether there is a block."""
        broker = self._broker
        request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
        try:
            response = await broker.controller.ask(request)
        finally:
            self._allocation = None
        if response.error_code:
            _log.warning("The controller gives no producer ids: %s", ErrorCode(response.error_code).name)
            return False
        first = response.producer_id_start
        self._next_block = range(first, first + response.producer_id_len)
        return True
