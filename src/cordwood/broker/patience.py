"""Requests that come before the end of a transaction is complete: CONCURRENT_TRANSACTIONS, which a client has to try
again. It is spared that where the broker waits for a moment, at most `add.partitions.to.txn.retry.backoff.max.ms`, and
asks a coordinator on another broker every `add.partitions.to.txn.retry.backoff.ms`."""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from typing import TYPE_CHECKING

from cordwood.coordinator.transactions.state import TransactionState
from cordwood.coordinator.transactions.statuses import PREPARED
from cordwood.shard.refusal import Refusal

if TYPE_CHECKING:
    from .broker import Broker


class Patience:
    """Of one request."""

    __slots__ = ("_again", "_broker", "_state", "_timer", "_transactional_id", "_until")

    def __init__(self, broker: Broker, transactional_id: str) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        longest_ms = broker.config.integer("add.partitions.to.txn.retry.backoff.max.ms")
        self._until = broker.clock.monotonic() + longest_ms / 1000
        self._again: Callable[[], None] | None = None
        self._timer: TimerHandle | None = None
        self._state: TransactionState | None = None

    def wait(self, again: Callable[[], None]) -> bool:
        """Calls `again` when the transaction is complete, or when the time is over. False: it is over already."""
        left_s = self._until - self._broker.clock.monotonic()
        if left_s <= 0:
            return False
        self._again = again
        try:
            state = self._broker.transactions.shard(self._transactional_id).state
        except Refusal:
            # The coordinator is on another broker: it tells nobody when the transaction is complete.
            pause_ms = self._broker.config.integer("add.partitions.to.txn.retry.backoff.ms")
            self._timer = get_running_loop().call_later(min(left_s, pause_ms / 1000), self._go_on)
            return True
        self._timer = get_running_loop().call_later(left_s, self._go_on)
        transaction = state.transactions.get(self._transactional_id)
        if transaction is not None and transaction.status in PREPARED:
            self._state = state
            state.when_complete(self._transactional_id, self._go_on)
        else:
            get_running_loop().call_soon(self._go_on)
        return True

    async def waited(self) -> bool:
        """As `wait`, for a coroutine: True when it should ask again."""
        again = get_running_loop().create_future()
        if not self.wait(lambda: None if again.done() else again.set_result(None)):
            return False
        await again
        return True

    def _go_on(self) -> None:
        again, self._again = self._again, None
        if again is not None:
            assert self._timer is not None
            self._timer.cancel()
            if self._state is not None:
                # What is stuck for long is asked for again and again.
                self._state.waits_no_more(self._transactional_id, self._go_on)
                self._state = None
            again()
