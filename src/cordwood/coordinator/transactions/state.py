"""The state of one shard of the transaction coordinator: its transactional ids.

Decisions are functions of it in the neighbouring modules. `shard_state` applies the log to it.
"""

from __future__ import annotations

from collections.abc import Collection

from cordwood.config.broker import BrokerConfig
from cordwood.runtime.clock import Clock
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode

from .transaction import TopicPartition, Transaction, WriteMarkers


class TransactionState:
    def __init__(self, clock: Clock, config: BrokerConfig, level: int) -> None:
        self.clock = clock
        self.config = config
        # The cluster's `transaction.version`.
        self.level = level
        self.timers = Timers(clock)
        self.transactions: dict[str, Transaction] = {}
        # Transactions that may time out.
        self.ongoing: dict[str, None] = {}
        # The clients' previous epochs, for retries of the request that assigned the current one (KIP-360). Not in the
        # log, as in Kafka: after a failover such a retry is refused.
        self.last_epochs: dict[str, int] = {}
        # Promises of requests that wait for the completion of a prepared transaction.
        self._waiting: dict[str, dict[Promise[None], None]] = {}

    def configure(self, config: BrokerConfig, level: int) -> None:
        self.config = config
        self.level = level

    def transaction(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"no producer was initialized as {transactional_id!r}")
        return transaction

    # Prepared transactions

    def prepare_later(self, transaction: Transaction, partitions: Collection[TopicPartition], delay_ms: float) -> None:
        """Writes the markers of these partitions after a delay."""

        def again(state: TransactionState) -> Decision[None]:
            if state.transactions.get(transaction.transactional_id) is not transaction:
                return Decision(None)
            return Decision(None, effects=[WriteMarkers(transaction.transactional_id, partitions)])

        self.timers.after(("markers", transaction.transactional_id), delay_ms, again)

    def completion(self, transactional_id: str) -> Promise[None]:
        """Returns a promise for the completion of this id's prepared transaction. The caller may resolve it earlier, on
        timeout."""
        completion: Promise[None] = Promise()
        self._waiting.setdefault(transactional_id, {})[completion] = None
        completion.then(lambda _outcome: self._forget(transactional_id, completion))
        return completion

    def waiting(self, transactional_id: str) -> list[Promise[None]]:
        """The promises of `completion` that are not resolved yet."""
        return list(self._waiting.get(transactional_id, ()))

    def _forget(self, transactional_id: str, completion: Promise[None]) -> None:
        waiting = self._waiting.get(transactional_id, {})
        waiting.pop(completion, None)
        if not waiting:
            self._waiting.pop(transactional_id, None)
