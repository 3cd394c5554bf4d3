"""Timeouts of transactions: aborts those that are open too long, and removes ids that are unused for long."""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice

from cordwood.shard.decision import Decision

from .ending import fence
from .records import record, tombstone
from .state import TransactionState
from .statuses import AT_REST
from .transaction import Transaction, WriteMarkers

_log = logging.getLogger(__name__)

_TIMEOUTS = "timeouts"
_EXPIRY = "expiry"
# Maximum per batch of the log.
_TOMBSTONES = 1000


def watch_for_timeouts(state: TransactionState) -> None:
    """Runs while any transaction is open."""
    if _TIMEOUTS not in state.timers:
        interval_ms = state.config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        state.timers.after(_TIMEOUTS, interval_ms, abort_timed_out)


def abort_timed_out(state: TransactionState) -> Decision[None]:
    """Aborts transactions that exceed their producer's timeout, except two-phase ones. Each is a separate decision,
    because together they might exceed a batch."""
    ongoing = [state.transactions[transactional_id] for transactional_id in state.ongoing]
    if ongoing:
        watch_for_timeouts(state)
    for transaction in ongoing:
        if _has_timed_out(state, transaction):
            transactional_id = transaction.transactional_id
            state.timers.after((_TIMEOUTS, transactional_id), 0, partial(_abort, transactional_id))
    return Decision(None)


def _has_timed_out(state: TransactionState, transaction: Transaction) -> bool:
    return transaction.has_timeout and transaction.started_ms + transaction.timeout_ms < state.clock.now_ms()


def _abort(transactional_id: str, state: TransactionState) -> Decision[None]:
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transactional_id not in state.ongoing or not _has_timed_out(state, transaction):
        return Decision(None)
    _log.info("%s is aborted: it is open for longer than its %d ms", transaction, transaction.timeout_ms)
    aborted = fence(state, transaction)
    return Decision(
        None,
        records=[record(aborted, state.level)],
        effects=[WriteMarkers(transactional_id, aborted.partitions)],
    )


def watch_for_expiry(state: TransactionState) -> None:
    interval_ms = state.config.integer("transaction.remove.expired.transaction.cleanup.interval.ms")
    state.timers.after(_EXPIRY, interval_ms, forget_expired)


def forget_expired(state: TransactionState) -> Decision[None]:
    oldest_ms = state.clock.now_ms() - state.config.integer("transactional.id.expiration.ms")
    expired = list(
        islice(
            (
                transaction.transactional_id
                for transaction in state.transactions.values()
                if transaction.status in AT_REST and transaction.updated_ms <= oldest_ms
            ),
            _TOMBSTONES,
        )
    )
    if len(expired) == _TOMBSTONES:
        state.timers.after(_EXPIRY, 0, forget_expired)
    else:
        watch_for_expiry(state)
    return Decision(None, records=[tombstone(transactional_id) for transactional_id in expired])
