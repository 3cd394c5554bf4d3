"""Requests that come before the end of a transaction is complete: CONCURRENT_TRANSACTIONS, which a client has to try
again. It is spared that where the broker waits for a moment, at most `add.partitions.to.txn.retry.backoff.max.ms`, and
asks a coordinator on another broker every `add.partitions.to.txn.retry.backoff.ms`."""

from __future__ import annotations

from asyncio import get_running_loop
from contextlib import suppress

from cordwood.broker.context import BrokerContext
from cordwood.coordinator.transactions.ending import await_completion
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal


class Patience:
    """Of one request."""

    __slots__ = ("_broker", "_transactional_id", "_until")

    def __init__(self, broker: BrokerContext, transactional_id: str) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        longest_ms = broker.config.integer("add.partitions.to.txn.retry.backoff.max.ms")
        self._until = broker.clock.monotonic() + longest_ms / 1000

    def moment(self) -> Promise[None] | None:
        """Returns a promise that is resolved when the transaction is complete, or else when the time is over; None
        once it is over."""
        left_s = self._until - self._broker.clock.monotonic()
        if left_s <= 0:
            return None
        transactional_id = self._transactional_id
        try:
            completion = self._broker.transactions.shard(transactional_id).decide(
                lambda state: await_completion(state, transactional_id)
            )
        except Refusal:
            # The coordinator is on another broker: it tells nobody when the transaction is complete.
            completion = Promise()
            left_s = min(left_s, self._broker.config.integer("add.partitions.to.txn.retry.backoff.ms") / 1000)
        if completion is None:
            # It has become complete in between. The caller asks in a later turn of the loop, so that this ends.
            completion, left_s = Promise(), 0
        timer = get_running_loop().call_later(left_s, completion.resolve, None)
        completion.then(lambda _outcome: timer.cancel())
        return completion

    async def waited(self) -> bool:
        """As `moment`, for a coroutine: True when it should ask again."""
        moment = self.moment()
        with suppress(Refusal):
            # The coordinator moves: asking again tells where to.
            await settled(moment)
        return moment is not None
