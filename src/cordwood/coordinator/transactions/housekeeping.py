"""What happens to transactions by time alone: those that are open for too long are aborted, and ids that nobody has
used for long are forgotten."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from cordwood.coordinator.decision import Decision

from .ending import fence
from .records import record, tombstone
from .statuses import AT_REST

if TYPE_CHECKING:
    from .state import TransactionState

_TIMEOUTS = "timeouts"
_EXPIRY = "expiry"
# In one batch of the log.
_TOMBSTONES = 1000


def watch_for_timeouts(state: TransactionState) -> None:
    """As long as anything is open."""
    if _TIMEOUTS not in state.timers:
        interval_ms = state.config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        state.timers.after(_TIMEOUTS, interval_ms, abort_timed_out)


def abort_timed_out(state: TransactionState) -> Decision[None]:
    """What was open for longer than its producer wanted. Those of two phases wait for theirs."""
    now_ms = state.clock.now_ms()
    ongoing = [state.transactions[transactional_id] for transactional_id in state.ongoing]
    if ongoing:
        watch_for_timeouts(state)
    aborted = [
        fence(state, transaction)
        for transaction in ongoing
        if transaction.has_timeout and transaction.started_ms + transaction.timeout_ms < now_ms
    ]
    return Decision(
        None,
        records=[record(transaction, state.level) for transaction in aborted],
        answers=[state.announce(transaction, transaction.partitions) for transaction in aborted],
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
