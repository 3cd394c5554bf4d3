"""InitProducerId with a transactional id: starts a producer, or continues after an error, and fences its predecessor.

The producer gets the id's producer id with the next epoch. An open transaction is aborted first, and the client
retries; if the transaction was prepared for two-phase commit and the client wants to keep it (KIP-939), the client ends
it.
"""

from __future__ import annotations

import logging

from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from .ending import fence
from .records import record
from .state import TransactionState
from .statuses import PREPARED, TransactionStatus
from .transaction import (
    LAST_EPOCH,
    NEVER,
    NO_EPOCH,
    NO_PRODUCER,
    NO_TIMEOUT_MS,
    ProducerIds,
    Transaction,
    WriteMarkers,
    new_producer_id,
)

_log = logging.getLogger(__name__)


def init_producer_id(
    state: TransactionState, request: InitProducerIdRequest, producer_ids: ProducerIds
) -> Decision[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    assert transactional_id is not None
    transaction = state.transactions.get(transactional_id)
    timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
    if transaction is None:
        return _begin(state, transactional_id, timeout_ms, producer_ids)
    expected = (
        None if request.producer_id == NO_PRODUCER else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    )
    if expected is not None and not _is_known(transaction, expected):
        raise _fenced(transaction, expected)
    if transaction.status in PREPARED:
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is being completed")
    if transaction.status is not TransactionStatus.ONGOING:
        return _begin_anew(state, transaction, expected, timeout_ms, producer_ids)
    if request.keep_prepared_txn:
        return _take_over(state, transaction, timeout_ms, producer_ids)
    _log.info("%s is aborted: a producer begins with that id", transaction)
    fenced = fence(state, transaction)
    return Decision(
        # The next attempt gets the epoch after this one, which no client ever gets.
        InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH
        ),
        records=[record(fenced, state.level)],
        effects=[WriteMarkers(transactional_id, fenced.partitions)],
    )


def _begin(
    state: TransactionState, transactional_id: str, timeout_ms: int, producer_ids: ProducerIds
) -> Decision[InitProducerIdResponse]:
    producer_id = new_producer_id(producer_ids)
    begun = Transaction(
        transactional_id,
        producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        status=TransactionStatus.EMPTY,
        partitions=frozenset(),
        started_ms=NEVER,
        updated_ms=state.clock.now_ms(),
        client_version=0,
        previous_producer_id=producer_id,
    )
    return _initialized(state, begun)


def _is_known(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Validates the client's epoch. A retry of the request that assigned a new producer id has the last epoch of the
    previous id."""
    return expected.producer_id in (transaction.producer_id, transaction.client.producer_id) or (
        expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= LAST_EPOCH
    )


def _begin_anew(
    state: TransactionState,
    transaction: Transaction,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    producer_ids: ProducerIds,
) -> Decision[InitProducerIdResponse]:
    epoch, last_epoch = transaction.producer_epoch, state.last_epochs.get(transaction.transactional_id, NO_EPOCH)
    producer_id = transaction.producer_id
    if transaction.is_exhausted and (expected is None or expected.producer_epoch == epoch):
        producer_id, epoch, last_epoch = new_producer_id(producer_ids), 0, NO_EPOCH if expected is None else epoch
    elif expected is None:
        epoch, last_epoch = epoch + 1, NO_EPOCH
    elif expected.producer_epoch == epoch:
        epoch, last_epoch = epoch + 1, epoch
    elif expected.producer_epoch != last_epoch:
        raise _fenced(transaction, expected)
    begun = transaction.moved(
        TransactionStatus.EMPTY,
        state.clock.now_ms(),
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=NEVER,
        next_producer_id=NO_PRODUCER,
        next_producer_epoch=NO_EPOCH,
    )
    return _initialized(state, begun, last_epoch)


def _take_over(
    state: TransactionState, transaction: Transaction, timeout_ms: int, producer_ids: ProducerIds
) -> Decision[InitProducerIdResponse]:
    """Keeps the transaction as written; its new owner gets the epoch after the last assigned one."""
    producer_id, epoch = transaction.client
    if epoch >= LAST_EPOCH:
        producer_id, epoch = new_producer_id(producer_ids), 0
    else:
        epoch += 1
    taken = transaction.moved(
        TransactionStatus.ONGOING,
        state.clock.now_ms(),
        # A prepared transaction must not time out just because its new owner does not use two-phase commit.
        timeout_ms=max(timeout_ms, transaction.timeout_ms),
        next_producer_id=producer_id,
        next_producer_epoch=epoch,
    )
    return Decision(
        InitProducerIdResponse(
            producer_id=producer_id,
            producer_epoch=epoch,
            ongoing_txn_producer_id=transaction.producer_id,
            ongoing_txn_producer_epoch=transaction.producer_epoch,
        ),
        records=[record(taken, state.level)],
    )


def _initialized(
    state: TransactionState, begun: Transaction, last_epoch: int = NO_EPOCH
) -> Decision[InitProducerIdResponse]:
    last_epochs, transactional_id = state.last_epochs, begun.transactional_id
    before = last_epochs.get(transactional_id, NO_EPOCH)
    last_epochs[transactional_id] = last_epoch
    return Decision(
        InitProducerIdResponse(producer_id=begun.producer_id, producer_epoch=begun.producer_epoch),
        records=[record(begun, state.level)],
        refused=lambda _refusal: last_epochs.update({transactional_id: before}),
    )


def _fenced(transaction: Transaction, expected: ProducerIdAndEpoch) -> Refusal:
    return Refusal(
        ErrorCode.PRODUCER_FENCED,
        f"{transaction.transactional_id!r} is producer {transaction.producer_id} with epoch "
        f"{transaction.producer_epoch} by now, not {expected.producer_id} with {expected.producer_epoch}",
    )
