"""Delays requests that arrive before the previous transaction is complete, to spare clients the retry after
CONCURRENT_TRANSACTIONS. The broker waits for at most `add.partitions.to.txn.retry.backoff.max.ms`, and asks a
coordinator on another broker every `add.partitions.to.txn.retry.backoff.ms`."""

from __future__ import annotations

from asyncio import get_running_loop
from contextlib import suppress

from cordwood.broker.context import BrokerContext
from cordwood.coordinator.transactions.ending import await_completion
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal


class Patience:
    """The waiting time of one request."""

    __slots__ = ("_broker", "_transactional_id", "_until")

    def __init__(self, broker: BrokerContext, transactional_id: str) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        longest_ms = broker.config.integer("add.partitions.to.txn.retry.backoff.max.ms")
        self._until = broker.clock.monotonic() + longest_ms / 1000

    def moment(self) -> Promise[None] | None:
        """Returns a promise that is resolved when the transaction is complete, or on timeout; None after the
        timeout."""
        left_s = self._until - self._broker.clock.monotonic()
        if left_s <= 0:
            return None
        transactional_id = self._transactional_id
        try:
            completion = self._broker.transactions.shard(transactional_id).decide(
                lambda state: await_completion(state, transactional_id)
            )
        except Refusal:
            # The coordinator is on another broker, which does not report completion.
            completion = Promise()
            left_s = min(left_s, self._broker.config.integer("add.partitions.to.txn.retry.backoff.ms") / 1000)
        if completion is None:
            # Completed in between. The caller retries in a later turn of the loop, so this terminates.
            completion, left_s = Promise(), 0
        timer = get_running_loop().call_later(left_s, completion.resolve, None)
        completion.then(lambda _outcome: timer.cancel())
        return completion

    async def waited(self) -> bool:
        """Like `moment`, for a coroutine: True if it should ask again."""
        moment = self.moment()
        with suppress(Refusal):
            # The coordinator has moved: asking again finds the new one.
            await settled(moment)
        return moment is not None
