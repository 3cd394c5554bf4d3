"""The state of a transaction coordinator's shard, driven by the shard runtime with log records.

`replay` is the only way for log contents to enter the state, while loading and afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue

from .housekeeping import watch_for_expiry, watch_for_timeouts
from .records import transaction_of
from .state import TransactionState
from .statuses import PREPARED, TransactionStatus


class TransactionShardState(TransactionState):
    def replay(self, records: Sequence[CoordinatorRecord], first_offset: int, producer_id: int) -> None:
        for key, value, _version in records:
            assert isinstance(key, TransactionLogKey)
            transactional_id = key.transactional_id
            if value is None:
                self.transactions.pop(transactional_id, None)
                self.ongoing.pop(transactional_id, None)
                self.last_epochs.pop(transactional_id, None)
                self._waiting.pop(transactional_id, None)
                continue
            assert isinstance(value, TransactionLogValue)
            transaction = transaction_of(transactional_id, value)
            self.transactions[transactional_id] = transaction
            if transaction.status is TransactionStatus.ONGOING:
                self.ongoing[transactional_id] = None
                watch_for_timeouts(self)
            else:
                self.ongoing.pop(transactional_id, None)
            if transaction.status not in PREPARED:
                self._waiting.pop(transactional_id, None)

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        """No transaction writes to this topic."""

    def loaded(self) -> None:
        """Called after replay: completes prepared transactions."""
        watch_for_expiry(self)
        for transaction in self.transactions.values():
            if transaction.status in PREPARED:
                self.prepare_later(transaction, transaction.partitions, 0)
