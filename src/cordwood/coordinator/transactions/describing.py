"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_transactions import TopicData
from cordwood.wire.messages.describe_transactions import TransactionState as Description
from cordwood.wire.messages.list_transactions import TransactionState as Listing

from .records import by_topic
from .state import TransactionState
from .statuses import TransactionStatus


def describe(state: TransactionState, transactional_id: str) -> Decision[Description]:
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id!r}")
    return Decision(
        Description(
            transactional_id=transactional_id,
            transaction_state=transaction.status.label,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.started_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                TopicData(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(transaction.partitions).items()
            ],
        )
    )


class Wanted(NamedTuple):
    """None, an empty list or a negative duration matches everything."""

    statuses: Collection[TransactionStatus] | None
    producer_ids: Collection[int]
    open_for_ms: int
    matches: Callable[[str], object] | None


def list_transactions(state: TransactionState, wanted: Wanted) -> Decision[list[Listing]]:
    statuses, producer_ids, open_for_ms, matches = wanted
    now_ms = state.clock.now_ms()
    return Decision(
        [
            Listing(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.status.label,
            )
            for transaction in state.transactions.values()
            if (statuses is None or transaction.status in statuses)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (open_for_ms < 0 or now_ms - transaction.started_ms > open_for_ms)
            and (matches is None or matches(transaction.transactional_id))
        ]
    )
