"""Prevents writes outside a transaction: before its first batch in a partition, the coordinator is asked (KIP-890).

A producer of `transaction.version` 1 has added the partition itself, and the coordinator verifies that. For version
2 (Produce from version 12 on) the broker adds it. `PartitionVerifier` asks the coordinator. While the transaction is
open in the partition no further question is needed: only its marker ends it there.

The transaction may end before the response arrives, so a batch holds a guard until it is written (`guards`),
which the transaction's marker removes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from struct import Struct
from typing import NamedTuple

from cordwood.broker.context import BrokerContext
from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.broker.transactions.patience import Patience
from cordwood.coordinator.transactions.adding import is_added
from cordwood.coordinator.transactions.transaction import TopicPartition
from cordwood.log.log import Log
from cordwood.replica.partition import Partition
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import ATTRIBUTES_POSITION, BATCH_HEADER_SIZE, TRANSACTIONAL_BIT
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

from .guards import Guard, TransactionGuards
from .partition_verifier import Errors, PartitionVerifier

_TOPIC_IDS_SINCE = 13
_PRODUCER_POSITION = 43
_PRODUCER = Struct(">qhi")

# Errors that older clients treat as a temporary problem of the partition.
_TRY_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)

Refusals = Mapping[TopicPartition, Refusal]


class _Generation(Enum):
    """A client's expectation of its first write."""

    # It has added the partition, and does not know TRANSACTION_ABORTABLE.
    EARLY = 1
    # It has added the partition.
    VERIFIED = 2
    # The write adds the partition.
    ADDING = 3

    @classmethod
    def of_produce(cls, version: int) -> _Generation:
        return cls.ADDING if version >= 12 else cls.VERIFIED if version >= 11 else cls.EARLY

    @classmethod
    def of_offset_commit(cls, version: int) -> _Generation:
        return cls.ADDING if version >= 5 else cls.VERIFIED if version >= 4 else cls.EARLY


class Unverified(Refusal):
    """The coordinator refused it, not the log."""


class _Batch(NamedTuple):
    """A batch for a partition without an open transaction of this producer."""

    producer: ProducerIdAndEpoch
    base_sequence: int
    log: Log


class TransactionalProduce:
    def __init__(self, broker: BrokerContext, verifier: PartitionVerifier, guards: TransactionGuards) -> None:
        self._broker = broker
        self._verifier = verifier
        self._guards = guards

    def check(self, request: ProduceRequest, version: int) -> Refusals | Promise[Refusals]:
        """Returns the partitions of a transactional request that must not be written, with the reasons."""
        batches = self._first_batches(request, version)
        if not batches:
            return {}
        producers = {batch.producer for batch in batches.values()}
        if len(producers) > 1:
            refusal = Unverified(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction has one producer")
            return dict.fromkeys(batches, refusal)
        assert request.transactional_id is not None
        return self._check(request.transactional_id, producers.pop(), batches, _Generation.of_produce(version))

    def is_verified(self, transactional_id: str, partition: Partition, records: memoryview, version: int) -> bool:
        """Returns whether a transactional batch may be written, as far as known without waiting; if unknown, call
        `check`."""
        log = partition.log
        if log is None:
            return False
        producer_id, epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
        producer = ProducerIdAndEpoch(producer_id, epoch)
        if _is_open(log, producer):
            return True
        place = (partition.topic, partition.index)
        if _Generation.of_produce(version) is _Generation.ADDING or self._guards.get(place, producer_id) is not None:
            return False
        try:
            state = self._broker.transactions.shard(transactional_id).settled_state
        except Refusal:
            return False
        return state is not None and is_added(state, transactional_id, producer, place)

    def check_offsets(self, request: TxnOffsetCommitRequest, index: int, version: int) -> Refusals | Promise[Refusals]:
        """Does the same for offsets, stored in this partition of the group coordinator's topic."""
        partition = self._broker.partition(GROUP_TOPIC, index)
        if partition is None or partition.log is None:
            return {}
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if _is_open(partition.log, producer):
            return {}
        batches = {(GROUP_TOPIC, index): _Batch(producer, 0, partition.log)}
        return self._check(request.transactional_id, producer, batches, _Generation.of_offset_commit(version))

    def _check(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        batches: Mapping[TopicPartition, _Batch],
        generation: _Generation,
    ) -> Refusals | Promise[Refusals]:
        if generation is not _Generation.ADDING and not self._broker.config.flag(
            "transaction.partition.verification.enable"
        ):
            return {}
        guards = {
            partition: self._guards.hold(partition, batch.producer, batch.base_sequence)
            for partition, batch in batches.items()
        }
        adds = generation is _Generation.ADDING
        result = self._verifier.ask(transactional_id, producer, batches, adds=adds)
        if not isinstance(result, Promise) and not _is_early(result, generation):
            return self._concluded(batches, guards, result, generation)
        checked: Promise[Refusals] = Promise()
        patience = Patience(self._broker, transactional_id)

        def answered(outcome: Errors | Refusal) -> None:
            errors = _errors(batches, outcome)
            moment = patience.moment() if _is_early(errors, generation) else None
            if moment is None:
                checked.resolve(self._concluded(batches, guards, errors, generation))
            else:
                moment.then(again)

        def again(_outcome: Refusal | None) -> None:
            result = self._verifier.ask(transactional_id, producer, batches, adds=adds)
            result.then(answered) if isinstance(result, Promise) else answered(result)

        result.then(answered) if isinstance(result, Promise) else answered(result)
        return checked

    def _first_batches(self, request: ProduceRequest, version: int) -> dict[TopicPartition, _Batch]:
        """Returns the transactional batches whose partitions are not known to be part of the transaction."""
        broker = self._broker
        found = {}
        for topic in request.topic_data:
            name = broker.topic_name(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.name
            for data in topic.partition_data:
                records = data.records
                partition = None if name is None else broker.partition(name, data.index)
                if (
                    name is None
                    or partition is None
                    or partition.log is None
                    or not partition.is_leader
                    or not isinstance(records, bytes | bytearray | memoryview)
                    or len(records) < BATCH_HEADER_SIZE
                    or not records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT
                ):
                    # Refused for other reasons, or not part of any transaction.
                    continue
                producer_id, epoch, base_sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
                producer = ProducerIdAndEpoch(producer_id, epoch)
                if not _is_open(partition.log, producer):
                    found[name, data.index] = _Batch(producer, base_sequence, partition.log)
        return found

    # Results

    def _concluded(
        self,
        batches: Mapping[TopicPartition, _Batch],
        guards: Mapping[TopicPartition, Guard],
        errors: Errors,
        generation: _Generation,
    ) -> Refusals:
        """Decides finally, right before the batches are written."""
        refusals: dict[TopicPartition, Refusal] = {}
        for partition, batch in batches.items():
            error = errors.get(partition, ErrorCode.NONE)
            if error:
                refusals[partition] = _unverified(error, generation)
            elif not _is_open(batch.log, batch.producer):
                # Otherwise a batch sent before this one has begun it.
                refusal = self._let_in(partition, batch, guards[partition], generation)
                if refusal is not None:
                    refusals[partition] = refusal
        return refusals

    def _let_in(
        self, partition: TopicPartition, batch: _Batch, guard: Guard, generation: _Generation
    ) -> Refusal | None:
        producer_id = batch.producer.producer_id
        if self._guards.get(partition, producer_id) is not guard:
            return Refusal(
                ErrorCode.INVALID_TXN_STATE, "the transaction has ended while its coordinator was asked about it"
            )
        refusal = _out_of_order(batch, guard, generation)
        if refusal is None:
            self._guards.release(partition, producer_id)
        return refusal


def _is_open(log: Log, producer: ProducerIdAndEpoch) -> bool:
    """True if the partition is known to be part of the producer's transaction, because it has batches of it."""
    known = log.producers.by_id.get(producer.producer_id)
    return known is not None and known.txn_first_offset >= 0 and known.epoch == producer.producer_epoch


def _errors(partitions: Collection[TopicPartition], outcome: Errors | Refusal) -> Errors:
    return dict.fromkeys(partitions, outcome.error) if isinstance(outcome, Refusal) else outcome


def _is_early(errors: Errors, generation: _Generation) -> bool:
    """True while the previous transaction is being completed. Clients whose first write adds partitions come this
    early; their broker retries for a while on their behalf."""
    return generation is _Generation.ADDING and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()


def _unverified(error: ErrorCode, generation: _Generation) -> Unverified:
    """Translates the error for the client's version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return Unverified(ErrorCode.INVALID_PRODUCER_EPOCH, "the producer is fenced")
    if error is ErrorCode.TRANSACTION_ABORTABLE and generation is _Generation.EARLY:
        return Unverified(ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction")
    if error in _TRY_AGAIN or (error is ErrorCode.CONCURRENT_TRANSACTIONS and generation is not _Generation.ADDING):
        return Unverified(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"whether the partition is part of the transaction is not known: {error.name}",
        )
    return Unverified(error, f"the partition is not part of the transaction: {error.name}")


def _out_of_order(batch: _Batch, guard: Guard, generation: _Generation) -> Refusal | None:
    producer_id, epoch = batch.producer
    known = batch.log.producers.by_id.get(producer_id)
    first = guard.lowest_sequence
    if generation is _Generation.ADDING and (known is None or known.epoch != epoch):
        first = 0
    if batch.base_sequence <= first:
        return None
    return Refusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} begins with sequence {batch.base_sequence} where {first} was tried before",
    )
