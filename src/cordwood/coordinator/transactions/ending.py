"""Ends a transaction: prepares it, which makes the outcome durable, and completes it once all of its partitions have
their markers.

Clients of `transaction.version` 2 (KIP-890) get a new epoch with every end, so that nothing sent earlier can arrive
after it. A retry is recognised by its epoch; in version 1, by the transaction's state.
"""

from __future__ import annotations

from typing import NamedTuple

from cordwood.shard.decision import Answer, Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

from .records import record
from .state import TransactionState
from .statuses import AT_REST, PREPARED, TransactionStatus
from .transaction import (
    EPOCH_BUMPS_SINCE,
    LAST_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    ProducerIds,
    Transaction,
    WriteMarkers,
    new_producer_id,
)

_PREPARED = {True: TransactionStatus.PREPARE_COMMIT, False: TransactionStatus.PREPARE_ABORT}
_COMPLETED = {
    TransactionStatus.PREPARE_COMMIT: TransactionStatus.COMPLETE_COMMIT,
    TransactionStatus.PREPARE_ABORT: TransactionStatus.COMPLETE_ABORT,
}
_COMMITTED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)


def end_transaction(
    state: TransactionState, request: EndTxnRequest, producer_ids: ProducerIds, *, bumps_epoch: bool
) -> Decision[EndTxnResponse]:
    transaction = state.transaction(request.transactional_id)
    if bumps_epoch:
        return _end_with_new_epoch(state, transaction, request, producer_ids)
    producer_id, epoch = transaction.client
    if request.producer_id != producer_id:
        raise _unmapped(transaction, request)
    if request.producer_epoch != epoch:
        raise _fenced(transaction, request)
    if transaction.status is TransactionStatus.ONGOING:
        return _prepare(state, transaction, producer_ids, commit=request.committed)
    _check_outcome(transaction, request)
    return Decision(EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))


def _end_with_new_epoch(
    state: TransactionState, transaction: Transaction, request: EndTxnRequest, producer_ids: ProducerIds
) -> Decision[EndTxnResponse]:
    status = transaction.status
    producer_id, epoch = transaction.client
    # A retry of an end that used up the last epoch finds another producer id.
    is_of_last_epoch = (
        request.producer_id == transaction.previous_producer_id and request.producer_epoch == LAST_EPOCH and epoch == 0
    )
    if status in PREPARED and _is_after(transaction, request):
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is being completed")
    if request.producer_id != producer_id and not is_of_last_epoch:
        raise _unmapped(transaction, request)
    is_of_epoch_before = is_of_last_epoch or request.producer_epoch == epoch - 1
    # An end that assigned no new epoch cannot be retried this way: the previous epoch belongs to a fenced owner. Kafka
    # would give that owner the epoch of another, whose records would then be treated as duplicates of its own.
    if _is_ended(status) and is_of_epoch_before and transaction.client_version >= EPOCH_BUMPS_SINCE:
        _check_outcome(transaction, request)
        return Decision(EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))
    if request.producer_epoch != epoch or epoch > LAST_EPOCH or status in PREPARED:
        raise _fenced(transaction, request)
    if request.committed and status is not TransactionStatus.ONGOING:
        raise Refusal(ErrorCode.INVALID_TXN_STATE, f"{request.transactional_id!r} has nothing to commit")
    # Such a client cannot know whether there is anything to abort: its first Produce may have been lost.
    return _prepare(state, transaction, producer_ids, commit=request.committed, bumps_epoch=True)


def _is_after(prepared: Transaction, request: EndTxnRequest) -> bool:
    """True if the client already has the epoch that the end in progress assigns: Kafka would treat it as fenced."""
    completed = completion_of(prepared, prepared.updated_ms)
    return (request.producer_id, request.producer_epoch) == (completed.producer_id, completed.producer_epoch)


def _is_ended(status: TransactionStatus) -> bool:
    return status not in (TransactionStatus.EMPTY, TransactionStatus.ONGOING)


def _check_outcome(transaction: Transaction, request: EndTxnRequest) -> None:
    """Checks that a retry for a prepared or completed transaction has the same outcome."""
    if transaction.status is TransactionStatus.EMPTY or (transaction.status in _COMMITTED) != request.committed:
        raise Refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"{request.transactional_id!r} is {transaction.status.label} and cannot be "
            f"{'committed' if request.committed else 'aborted'}",
        )
    if transaction.status in PREPARED:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is being completed")


def _prepare(
    state: TransactionState,
    transaction: Transaction,
    producer_ids: ProducerIds,
    *,
    commit: bool,
    bumps_epoch: bool = False,
) -> Decision[EndTxnResponse]:
    now_ms = state.clock.now_ms()
    client = transaction.client
    if bumps_epoch and client.producer_epoch >= LAST_EPOCH:
        ended = _Ended(transaction.producer_epoch + 1, new_producer_id(producer_ids))
    else:
        ended = _ended_with(transaction, client.producer_epoch + 1 if bumps_epoch else client.producer_epoch)
    prepared = transaction.moved(
        _PREPARED[commit],
        now_ms,
        started_ms=now_ms if transaction.status in AT_REST else transaction.started_ms,
        client_version=EPOCH_BUMPS_SINCE if bumps_epoch else 0,
        **ended._asdict(),
    )
    completed = completion_of(prepared, now_ms)
    last_epochs, transactional_id = state.last_epochs, transaction.transactional_id
    before = last_epochs.get(transactional_id, NO_EPOCH)
    if bumps_epoch:
        last_epochs[transactional_id] = client.producer_epoch
    return Decision(
        EndTxnResponse(producer_id=completed.producer_id, producer_epoch=completed.producer_epoch),
        records=[record(prepared, state.level)],
        effects=[WriteMarkers(transactional_id, prepared.partitions, is_urgent=False)],
        refused=lambda _refusal: last_epochs.update({transactional_id: before}),
    )


class _Ended(NamedTuple):
    """The epoch of the markers, and the client's epoch afterwards if it differs."""

    producer_epoch: int
    next_producer_id: int = NO_PRODUCER
    next_producer_epoch: int = NO_EPOCH


def _ended_with(transaction: Transaction, epoch: int) -> _Ended:
    """`epoch` is the client's epoch from then on."""
    client = transaction.client
    if client.producer_id == transaction.producer_id:
        return _Ended(epoch)
    # The transaction was taken over by a producer with a new id: writes of the old id end with the old id's next epoch.
    return _Ended(transaction.producer_epoch + 1, client.producer_id, epoch)


def completion_of(prepared: Transaction, now_ms: int) -> Transaction:
    """Returns the state after all markers are written."""
    changes: dict[str, object] = {}
    if prepared.next_producer_id != NO_PRODUCER:
        changes["producer_id"] = prepared.next_producer_id
        changes["producer_epoch"] = max(0, prepared.next_producer_epoch)
    return prepared.moved(
        _COMPLETED[prepared.status],
        now_ms,
        partitions=frozenset(),
        next_producer_id=NO_PRODUCER,
        next_producer_epoch=NO_EPOCH,
        **changes,
    )


def complete(state: TransactionState, prepared: Transaction) -> Decision[None]:
    """Completes a transaction whose markers are all written, and resolves the requests that wait for it."""
    if state.transactions.get(prepared.transactional_id) is not prepared:
        return Decision(None)
    return Decision(
        None,
        records=[record(completion_of(prepared, state.clock.now_ms()), state.level)],
        answers=[Answer(promise, None) for promise in state.waiting(prepared.transactional_id)],
    )


def await_completion(state: TransactionState, transactional_id: str) -> Decision[None]:
    """Calls back when the prepared transaction is complete; at once if there is none."""
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transaction.status not in PREPARED:
        return Decision(None)
    return Decision(state.completion(transactional_id))


def fence(state: TransactionState, transaction: Transaction) -> Transaction:
    """Returns the open transaction, to be aborted with an epoch that no client has: the coordinator, and every
    partition with the marker, reject the previous owner from then on."""
    ended = _ended_with(transaction, transaction.client.producer_epoch + 1)
    assert ended.producer_epoch <= MAX_EPOCH
    state.last_epochs.pop(transaction.transactional_id, None)
    return transaction.moved(TransactionStatus.PREPARE_EPOCH_FENCE, transaction.updated_ms).moved(
        TransactionStatus.PREPARE_ABORT,
        state.clock.now_ms(),
        client_version=EPOCH_BUMPS_SINCE if state.level >= EPOCH_BUMPS_SINCE else 0,
        **ended._asdict(),
    )


def _unmapped(transaction: Transaction, request: EndTxnRequest) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"{transaction.transactional_id!r} is producer {transaction.client.producer_id}, not {request.producer_id}",
    )


def _fenced(transaction: Transaction, request: EndTxnRequest) -> Refusal:
    return Refusal(
        ErrorCode.PRODUCER_FENCED,
        f"{transaction.transactional_id!r} has epoch {transaction.client.producer_epoch}, not {request.producer_epoch}",
    )
