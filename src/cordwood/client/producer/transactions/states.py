"""The states of a transactional producer and their transitions, from which docs/client-transactions.md draws its
diagram."""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """Same states as Kafka's TransactionManager; the values are for errors and diagrams."""

    UNINITIALIZED = "Uninitialized"
    INITIALIZING = "Initializing"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    PREPARED = "Prepared"
    COMMITTING = "Committing"
    ABORTING = "Aborting"
    ABORTABLE_ERROR = "AbortableError"
    FATAL_ERROR = "FatalError"


_BROKEN = "fenced, or a fatal error"
_SPOILED = "an abortable error"
_ENDED = "EndTxn is answered, or nothing was written"
_BUMPED = "as well, and a new epoch is needed"
_ANOTHER = "take_transactional_id: another id from now on"

# From → to → cause.
TRANSITIONS: Mapping[State, Mapping[State, str]] = {
    State.UNINITIALIZED: {State.INITIALIZING: "init_transactions"},
    State.INITIALIZING: {
        State.READY: "InitProducerId is answered",
        State.PREPARED: "keep_prepared, and one is prepared",
        State.UNINITIALIZED: "not allowed: init_transactions may be called again",
        State.ABORTABLE_ERROR: _SPOILED,
        State.FATAL_ERROR: _BROKEN,
    },
    State.READY: {
        State.IN_TRANSACTION: "begin_transaction",
        State.UNINITIALIZED: _ANOTHER,
        State.FATAL_ERROR: _BROKEN,
    },
    State.IN_TRANSACTION: {
        State.COMMITTING: "commit_transaction",
        State.ABORTING: "abort_transaction",
        State.PREPARED: "prepare_transaction or leave_transaction",
        State.ABORTABLE_ERROR: _SPOILED,
        State.FATAL_ERROR: _BROKEN,
    },
    State.PREPARED: {
        State.COMMITTING: "complete_transaction with its own state, or commit_transaction",
        State.ABORTING: "complete_transaction with another, or abort_transaction",
        State.UNINITIALIZED: _ANOTHER,
        State.FATAL_ERROR: _BROKEN,
    },
    State.COMMITTING: {
        State.READY: _ENDED,
        State.INITIALIZING: _BUMPED,
        State.ABORTABLE_ERROR: _SPOILED,
        State.FATAL_ERROR: _BROKEN,
    },
    State.ABORTING: {
        State.READY: _ENDED,
        State.INITIALIZING: _BUMPED,
        State.FATAL_ERROR: _BROKEN,
    },
    State.ABORTABLE_ERROR: {State.ABORTING: "abort_transaction", State.FATAL_ERROR: _BROKEN},
    State.FATAL_ERROR: {},
}

# A transaction is open, and its contents must be added or ended.
OPEN = frozenset({State.IN_TRANSACTION, State.COMMITTING, State.ABORTING})

# The calls allowed in each state, for error messages.
WHAT_NOW: Mapping[State, str] = {
    State.UNINITIALIZED: "call init_transactions() first, once",
    State.INITIALIZING: "wait for init_transactions() or abort_transaction()",
    State.READY: "no transaction is open; call begin_transaction() first",
    State.IN_TRANSACTION: "a transaction is open; end it by commit_transaction() or abort_transaction() first",
    State.PREPARED: "a transaction is prepared; end it by complete_transaction() first",
    State.COMMITTING: "wait for commit_transaction()",
    State.ABORTING: "wait for abort_transaction()",
    State.ABORTABLE_ERROR: "call abort_transaction()",
    State.FATAL_ERROR: "close this producer and create a new one",
}
