"""The states of a transaction and the transitions between them, from which docs/transactions.md draws its diagram."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionStatus(IntEnum):
    """Values as in the log; `label` is the name in DescribeTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {status: status.name.title().replace("_", "") for status in TransactionStatus}
BY_LABEL: Mapping[str, TransactionStatus] = {label: status for status, label in _LABELS.items()}

_EMPTY, _ONGOING, _DEAD, _FENCE = (
    TransactionStatus.EMPTY,
    TransactionStatus.ONGOING,
    TransactionStatus.DEAD,
    TransactionStatus.PREPARE_EPOCH_FENCE,
)
_PREPARE_COMMIT, _COMPLETE_COMMIT = TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT
_PREPARE_ABORT, _COMPLETE_ABORT = TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT

_ADDED = "partitions or offsets are added"
_BEGUN_ANEW = "InitProducerId"
_NOTHING_TO_ABORT = "EndTxn aborts (version 2)"
_EXPIRED = "transactional.id.expiration.ms"

# From → to → cause. Dead means removed: the log has a tombstone. PrepareEpochFence is passed through within one
# decision and never written.
TRANSITIONS: Mapping[TransactionStatus, Mapping[TransactionStatus, str]] = {
    _EMPTY: {_EMPTY: _BEGUN_ANEW, _ONGOING: _ADDED, _PREPARE_ABORT: _NOTHING_TO_ABORT, _DEAD: _EXPIRED},
    _ONGOING: {
        _ONGOING: f"{_ADDED}, or a prepared one is taken over",
        _PREPARE_COMMIT: "EndTxn commits",
        _PREPARE_ABORT: "EndTxn aborts",
        _FENCE: "InitProducerId, or the timeout",
    },
    _FENCE: {_PREPARE_ABORT: "at once, with the next epoch"},
    _PREPARE_COMMIT: {_COMPLETE_COMMIT: "all markers are written"},
    _PREPARE_ABORT: {_COMPLETE_ABORT: "all markers are written"},
    _COMPLETE_COMMIT: {_EMPTY: _BEGUN_ANEW, _ONGOING: _ADDED, _PREPARE_ABORT: _NOTHING_TO_ABORT, _DEAD: _EXPIRED},
    _COMPLETE_ABORT: {_EMPTY: _BEGUN_ANEW, _ONGOING: _ADDED, _PREPARE_ABORT: _NOTHING_TO_ABORT, _DEAD: _EXPIRED},
    _DEAD: {},
}

# States without a transaction in progress: a producer may start, the id may expire.
AT_REST = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
PREPARED = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
