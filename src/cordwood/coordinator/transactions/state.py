"""The state of one shard of the transaction coordinator: its transactional ids.

Decisions are functions of it in the modules beside this one; `replay` is the only way in which what is in the log
comes into it, while it is loaded and while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from cordwood.config.broker import BrokerConfig
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.runtime.clock import Clock
from cordwood.shard.decision import Answer, Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

from .housekeeping import watch_for_expiry, watch_for_timeouts
from .records import transaction_of
from .statuses import PREPARED, TransactionStatus
from .transaction import TopicPartition, Transaction


class Prepared(Protocol):
    def __call__(self, transaction: Transaction, partitions: Collection[TopicPartition], /, *, is_urgent: bool) -> None:
        """Writes the markers of what is prepared, into these partitions, and has it completed: at once if that is
        urgent, otherwise after what is answered now."""


class TransactionState:
    def __init__(
        self,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        level: Callable[[], int],
        take_producer_id: Callable[[], int | None],
        prepared: Prepared,
    ) -> None:
        self.clock = clock
        self.timers = Timers(clock)
        self.transactions: dict[str, Transaction] = {}
        # Those that may time out.
        self.ongoing: dict[str, None] = {}
        # The epochs that clients had before their present ones, as long as they may repeat what gave them the present
        # one (KIP-360). Not in the log, as in Kafka: after a failover such a retry is refused.
        self.last_epochs: dict[str, int] = {}
        # Who waits until what is prepared is complete.
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        self._config = config
        self._level = level
        self._take_producer_id = take_producer_id
        self._prepared = prepared

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    @property
    def level(self) -> int:
        """The cluster's `transaction.version`."""
        return self._level()

    def new_producer_id(self) -> int:
        producer_id = self._take_producer_id()
        if producer_id is None:
            raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there is no producer id at the moment")
        return producer_id

    def transaction(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"nobody has begun as {transactional_id!r}")
        return transaction

    # What is in the log

    def replay(self, records: Sequence[CoordinatorRecord], first_offset: int, producer_id: int) -> None:
        for key, value, _version in records:
            assert isinstance(key, TransactionLogKey)
            transactional_id = key.transactional_id
            if value is None:
                self.transactions.pop(transactional_id, None)
                self.ongoing.pop(transactional_id, None)
                self.last_epochs.pop(transactional_id, None)
                continue
            assert isinstance(value, TransactionLogValue)
            transaction = transaction_of(transactional_id, value)
            self.transactions[transactional_id] = transaction
            if transaction.status is TransactionStatus.ONGOING:
                self.ongoing[transactional_id] = None
                watch_for_timeouts(self)
            else:
                self.ongoing.pop(transactional_id, None)

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        """Nobody's transaction writes into this topic."""

    def loaded(self) -> None:
        """Everything is replayed: what was prepared is completed."""
        watch_for_expiry(self)
        for transaction in self.transactions.values():
            if transaction.status in PREPARED:
                self.prepare_later(transaction, transaction.partitions, 0)

    # What is prepared

    def announce(
        self, transaction: Transaction, partitions: Collection[TopicPartition], *, is_urgent: bool = True
    ) -> Answer:
        """For the answers of a decision that prepares: when that is committed, the markers are written."""
        committed: Promise[None] = Promise()

        def tell(outcome: Refusal | None) -> None:
            # If it is not to be committed, the shard is another broker's, which will complete what it finds prepared.
            found = self.transactions.get(transaction.transactional_id)
            if outcome is None and found is not None and found.status in PREPARED:
                self._prepared(found, partitions, is_urgent=is_urgent)

        committed.then(tell)
        return Answer(committed, None)

    def prepare_later(self, transaction: Transaction, partitions: Collection[TopicPartition], delay_ms: float) -> None:
        """The markers of these partitions are tried after a while."""

        def again(state: TransactionState) -> Decision[None]:
            if state.transactions.get(transaction.transactional_id) is not transaction:
                return Decision(None)
            return Decision(None, answers=[state.announce(transaction, partitions)])

        self.timers.after(("markers", transaction.transactional_id), delay_ms, again)

    # What is complete

    def when_complete(self, transactional_id: str, then: Callable[[], None]) -> None:
        """Calls `then` when what this id has prepared is complete; never, if the shard goes before that."""
        self._waiting.setdefault(transactional_id, {})[then] = None

    def waits_no_more(self, transactional_id: str, then: Callable[[], None]) -> None:
        waiting = self._waiting.get(transactional_id, {})
        waiting.pop(then, None)
        if not waiting:
            self._waiting.pop(transactional_id, None)

    def completed(self, transactional_id: str) -> None:
        """To be said outside of decisions: whoever waits asks again."""
        for then in self._waiting.pop(transactional_id, {}):
            then()
