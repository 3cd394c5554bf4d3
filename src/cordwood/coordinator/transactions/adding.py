"""Adds partitions to a transaction, or verifies that they are part of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

from .records import record
from .state import TransactionState
from .statuses import AT_REST, PREPARED, TransactionStatus
from .transaction import LAST_EPOCH, TopicPartition, Transaction

T = TypeVar("T")


def add_partitions(
    state: TransactionState,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    client_version: int,
    response: T,
) -> Decision[T]:
    """Adds partitions; the first ones begin the transaction."""
    transaction = _transaction_of(state, transactional_id, producer)
    if transaction.is_taken_over:
        raise Refusal(ErrorCode.INVALID_TXN_STATE, "a prepared transaction that was kept can only be ended")
    if transaction.status is TransactionStatus.ONGOING and transaction.partitions.issuperset(partitions):
        return Decision(response)
    now_ms = state.clock.now_ms()
    grown = transaction.moved(
        TransactionStatus.ONGOING,
        now_ms,
        partitions=transaction.partitions.union(partitions),
        started_ms=now_ms if transaction.status in AT_REST else transaction.started_ms,
        client_version=client_version,
    )
    return Decision(response, records=[record(grown, state.level)])


def verify_partitions(
    state: TransactionState,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
) -> Decision[dict[TopicPartition, ErrorCode]]:
    """Returns, for each partition, whether it is part of the transaction."""
    added = _transaction_of(state, transactional_id, producer).partitions
    return Decision(
        {
            partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
    )


def is_added(
    state: TransactionState, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition
) -> bool:
    """Like `verify_partitions` for one partition, without the reason."""
    try:
        return partition in _transaction_of(state, transactional_id, producer).partitions
    except Refusal:
        return False


def _transaction_of(state: TransactionState, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
    """Returns the id's current transaction, unless it is being completed."""
    transaction = state.transaction(transactional_id)
    if transaction.status in PREPARED:
        # The producer may already have its next id and epoch, which the transaction gets on completion.
        raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is being completed")
    client = transaction.client
    if producer.producer_id != client.producer_id:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{transactional_id!r} is producer {client.producer_id}, not {producer.producer_id}",
        )
    if producer.producer_epoch != client.producer_epoch or client.producer_epoch > LAST_EPOCH:
        raise Refusal(
            ErrorCode.PRODUCER_FENCED,
            f"{transactional_id!r} has epoch {client.producer_epoch}, not {producer.producer_epoch}",
        )
    return transaction
