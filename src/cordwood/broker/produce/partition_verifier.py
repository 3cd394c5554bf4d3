"""Asks a transaction's coordinator, wherever it is, to verify that partitions are part of the transaction, or to add
them (KIP-890).

errors = verifier.ask("orders-writer", producer, partitions, adds=True)

A coordinator on this broker decides at once. One on another broker gets AddPartitionsToTxn, with one request in flight
to each broker; later questions are merged into the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import NamedTuple

from cordwood.broker.context import BrokerContext
from cordwood.broker.coordination.topics import TRANSACTION_TOPIC
from cordwood.broker.peers import BrokerPeers
from cordwood.config.network.peer_settings import peer_settings
from cordwood.coordinator.transactions.adding import add_partitions, verify_partitions
from cordwood.coordinator.transactions.records import by_topic
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE, TopicPartition
from cordwood.metadata.image import NO_LEADER, MetadataImage
from cordwood.net.peers.exceptions import PeerError, UnsupportedByPeer
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_log = logging.getLogger(__name__)

# The first version for brokers.
_FOR_BROKERS = 4

Errors = dict[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Collection[TopicPartition]
    adds: bool
    answer: Promise[Errors]


class PartitionVerifier:
    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        config, listener = broker.config, broker.config.listeners.inter_broker
        settings = peer_settings(config, listener, f"broker-{broker.id}-txn-partition-verifier")
        self._peers = BrokerPeers(broker.network, settings, broker.random, listener)
        # Questions for the next request, by the coordinator's broker.
        self._queues: dict[int, list[_Question]] = {}
        self._in_flight: dict[int, asyncio.Task[None]] = {}

    def ask(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Errors | Promise[Errors]:
        """Returns an error for each partition, NONE for those that are part of the transaction. `adds` adds missing
        ones."""
        broker = self._broker
        index = broker.transactions.index_of(transactional_id)
        coordinator = broker.image.topics.partition(TRANSACTION_TOPIC, index)
        if coordinator is None or coordinator.leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator.leader == broker.id:
            return self._decide(transactional_id, producer, partitions, adds=adds)
        answer: Promise[Errors] = Promise()
        question = _Question(transactional_id, producer, partitions, adds, answer)
        self._queues.setdefault(coordinator.leader, []).append(question)
        if coordinator.leader not in self._in_flight:
            self._send(coordinator.leader)
        return answer

    def apply(self, image: MetadataImage) -> None:
        self._peers.apply(image)

    async def close(self) -> None:
        await self._peers.close()
        await asyncio.gather(*self._in_flight.values())

    # On this broker

    def _decide(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Errors | Promise[Errors]:
        def decide(state: TransactionState) -> Decision[dict[TopicPartition, ErrorCode]]:
            if not adds:
                return verify_partitions(state, transactional_id, producer, partitions)
            added = dict.fromkeys(partitions, ErrorCode.NONE)
            return add_partitions(state, transactional_id, producer, partitions, EPOCH_BUMPS_SINCE, added)

        try:
            return self._broker.transactions.shard(transactional_id).decide(decide)
        except Refusal as refusal:
            return dict.fromkeys(partitions, refusal.error)

    # On another broker

    def _send(self, broker_id: int) -> None:
        questions = _take(self._queues, broker_id)
        if questions:
            task = asyncio.get_running_loop().create_task(self._exchange(broker_id, questions))
            self._in_flight[broker_id] = task
            task.add_done_callback(lambda _task: self._sent(broker_id))

    def _sent(self, broker_id: int) -> None:
        del self._in_flight[broker_id]
        self._send(broker_id)

    async def _exchange(self, broker_id: int, questions: list[_Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question in questions])
        try:
            response = await self._peers.to(broker_id).send(request, at_least=_FOR_BROKERS)
        except UnsupportedByPeer as error:
            # There was no verification before KIP-890. But partitions that must be added must not be written.
            _log.warning("Broker %d cannot verify partitions of transactions: %s", broker_id, error)
            for question in questions:
                _answer(question, ErrorCode.INVALID_TXN_STATE if question.adds else ErrorCode.NONE)
        except PeerError as error:
            _log.info("Broker %d did not verify partitions of transactions, clients retry: %s", broker_id, error)
            for question in questions:
                _answer(question, ErrorCode.NETWORK_EXCEPTION)
        else:
            _answer_all(questions, response)


def _take(queues: dict[int, list[_Question]], broker_id: int) -> list[_Question]:
    """Takes the questions of the next request, which can hold one per transactional id."""
    waiting = queues.pop(broker_id, [])
    taken: dict[str, _Question] = {}
    for question in waiting:
        taken.setdefault(question.transactional_id, question)
    if len(taken) < len(waiting):
        queues[broker_id] = [question for question in waiting if taken[question.transactional_id] is not question]
    return list(taken.values())


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.producer_id,
        producer_epoch=question.producer.producer_epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in by_topic(question.partitions).items()
        ],
    )


def _answer(question: _Question, error: ErrorCode) -> None:
    question.answer.resolve(dict.fromkeys(question.partitions, error))


def _answer_all(questions: list[_Question], response: AddPartitionsToTxnResponse) -> None:
    """Partitions missing in the response are not verified."""
    if response.error_code:
        for question in questions:
            _answer(question, ErrorCode.of(response.error_code))
        return
    codes = {
        (result.transactional_id, topic.name, partition.partition_index): partition.partition_error_code
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    for question in questions:
        name = question.transactional_id
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        question.answer.resolve(
            {partition: ErrorCode.of(codes.get((name, *partition), unknown)) for partition in question.partitions}
        )
