"""AddPartitionsToTxn: adds partitions to a transaction; with `verify_only`, checks that they are part of it.

Up to version 3 producers send it, for one transaction; from 4 on brokers do so for them, for many transactions, when
they see the first batch of one (KIP-890). One missing partition refuses all of its transaction. Clients know
PRODUCER_FENCED since version 2.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.topic_view import INTERNAL_TOPICS
from cordwood.broker.transactions.patience import Patience
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.transactions.adding import add_partitions, verify_partitions
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE, TopicPartition
from cordwood.net.api import Call, Result, handles
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FENCED_SINCE = 2
_BATCHED_SINCE = 4

Errors = dict[TopicPartition, ErrorCode]


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(broker: Broker, request: AddPartitionsToTxnRequest, call: Call) -> Result:
    transactions = request.transactions if call.version >= _BATCHED_SINCE else [_only(request)]
    results = [_ask(broker, transaction, call) for transaction in transactions]
    if any(isinstance(result, Promise) or _is_early(result, call) for result in results):
        return _when_decided(broker, transactions, results, call)
    return _response([_told(*pair, call) for pair in zip(transactions, results, strict=True)], call)


async def _when_decided(
    broker: Broker,
    transactions: list[AddPartitionsToTxnTransaction],
    results: list[Errors | Promise[Errors] | Refusal],
    call: Call,
) -> AddPartitionsToTxnResponse:
    told = []
    for transaction, result in zip(transactions, results, strict=True):
        patience = Patience(broker, transaction.transactional_id)
        outcome = await _settled(result)
        while _is_early(outcome, call) and await patience.waited():
            outcome = await _settled(_ask(broker, transaction, call))
        told.append(_told(transaction, outcome, call))
    return _response(told, call)


def _is_early(outcome: Errors | Promise[Errors] | Refusal, call: Call) -> bool:
    """True for a client's request if its previous transaction is not complete yet. Brokers retry on their own."""
    return (
        isinstance(outcome, Refusal)
        and outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS
        and call.version < _BATCHED_SINCE
    )


async def _settled(result: Errors | Promise[Errors] | Refusal) -> Errors | Refusal:
    if isinstance(result, Refusal):
        return result
    try:
        return await settled(result)
    except Refusal as refusal:
        return refusal


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )


def _ask(broker: Broker, transaction: AddPartitionsToTxnTransaction, call: Call) -> Errors | Promise[Errors] | Refusal:
    is_batched = call.version >= _BATCHED_SINCE
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    errors = {partition: _check(broker, partition, is_clients=not is_batched) for partition in partitions}
    if any(errors.values()):
        return {partition: error or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, error in errors.items()}
    transactional_id = transaction.transactional_id
    if not transactional_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)

    def decide(state: TransactionState) -> Decision[Errors]:
        if transaction.verify_only:
            return verify_partitions(state, transactional_id, producer, partitions)
        client_version = EPOCH_BUMPS_SINCE if is_batched else 0
        return add_partitions(state, transactional_id, producer, partitions, client_version, errors)

    try:
        return broker.transactions.shard(transactional_id).decide(decide)
    except Refusal as refusal:
        return refusal


def _check(broker: Broker, partition: TopicPartition, *, is_clients: bool) -> ErrorCode:
    topic, index = partition
    if is_clients and topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker.partition(topic, index) is None and broker.image.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _told(
    transaction: AddPartitionsToTxnTransaction, outcome: Errors | Promise[Errors] | Refusal, call: Call
) -> AddPartitionsToTxnResult:
    assert not isinstance(outcome, Promise)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[_told_topic(topic, outcome, call) for topic in transaction.topics],
    )


def _told_topic(topic: AddPartitionsToTxnTopic, outcome: Errors | Refusal, call: Call) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=index,
                partition_error_code=_refused(outcome.error, call)
                if isinstance(outcome, Refusal)
                else outcome[topic.name, index],
            )
            for index in topic.partitions
        ],
    )


def _refused(error: ErrorCode, call: Call) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return coordinator_error(error)


def _response(results: list[AddPartitionsToTxnResult], call: Call) -> AddPartitionsToTxnResponse:
    if call.version >= _BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
