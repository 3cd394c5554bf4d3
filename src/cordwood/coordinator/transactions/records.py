"""The records of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Iterable

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

from .statuses import TransactionStatus
from .transaction import TopicPartition, Transaction

# `transaction.version` 1 adds tagged fields.
_TAGGED_SINCE = 1
_STATUSES = {status.value: status for status in TransactionStatus}


def record(transaction: Transaction, level: int) -> CoordinatorRecord:
    """`level` is the cluster's `transaction.version`."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status.value,
        transaction_partitions=None
        if transaction.status is TransactionStatus.EMPTY
        else [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    if level < _TAGGED_SINCE:
        return CoordinatorRecord(key, value, 0)
    value.previous_producer_id = transaction.previous_producer_id
    value.next_producer_id = transaction.next_producer_id
    value.next_producer_epoch = transaction.next_producer_epoch
    value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(key, value, 1)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        _STATUSES[value.transaction_status],
        frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        value.previous_producer_id,
        value.next_producer_id,
        value.next_producer_epoch,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
