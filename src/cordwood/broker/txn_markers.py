"""Markers: the control batches that commit or abort a transaction, one in each of its partitions.

They are written by whoever leads the partition: at the word of a coordinator, which may be on this broker, or of an
administrator who ends what hangs. A transaction is complete when all of its partitions have theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from cordwood.coordinator.transactions.ending import complete
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE, TopicPartition, Transaction
from cordwood.log.log import Log
from cordwood.log.producers import AppendOrigin
from cordwood.replica.partition import ACKS_ALL
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode

from .coordinator_topics import GROUP_TOPIC

if TYPE_CHECKING:
    from .broker import Broker

_log = logging.getLogger(__name__)

# How long it takes until a partition that could not take its marker is asked again.
_RETRY_MS = 100
# Of some 50 µs each: others have their turn before the next.
_AT_ONCE = 100
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
# The partition is gone; or it has seen a later epoch of the producer, so that this transaction is over there.
_SETTLED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    # Of the client that ended the transaction: from 2 on an end has an epoch of its own.
    transaction_version: int


class TxnMarkers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # The batch of a marker at a time, as it was made last.
        self._made: tuple[Marker, int, bytes] | None = None

    # One partition

    def write(self, topic: str, index: int, marker: Marker) -> Promise[None] | None:
        """Ends the producer's transaction in a partition that this broker leads. None: it is acknowledged; Refusal if
        it cannot be written, or as what comes of it later."""
        broker = self._broker
        partition = broker.hosted(topic, index)
        log = partition.leader_log()
        _check_epoch(log, marker)
        broker.transactional_produce.ended(topic, index, marker.producer_id)
        if topic == GROUP_TOPIC:
            return self._write_to_group_coordinator(index, marker)
        now_ms = broker.clock.now_ms()
        try:
            appended = partition.append(self._batch(marker, now_ms), ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        except DiskError as error:
            broker.replicas.disk_failed(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if appended.last_offset < log.high_watermark:
            return None
        written: Promise[None] = Promise()

        def acknowledged(error: ErrorCode) -> None:
            written.resolve(Refusal(error, f"the marker in {partition} is not acknowledged") if error else None)

        return None if partition.acknowledge(appended.last_offset, acknowledged) else written

    def _batch(self, marker: Marker, now_ms: int) -> bytearray:
        """The partitions of a transaction get the same one, and make it their own."""
        made = self._made
        if made is None or made[0] is not marker or made[1] != now_ms:
            producer_id, epoch, coordinator_epoch, commit, _ = marker
            batch = end_txn_marker(0, now_ms, producer_id, epoch, commit, coordinator_epoch, leader_epoch=-1)
            made = self._made = (marker, now_ms, bytes(batch))
        return bytearray(made[2])

    def _write_to_group_coordinator(self, index: int, marker: Marker) -> Promise[None] | None:
        """Offsets count from then on, so it is the coordinator of their groups that writes the marker."""
        producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
        try:
            return self._broker.groups.end_transaction(index, producer, marker.coordinator_epoch, commit=marker.commit)
        except Refusal as refusal:
            if refusal.error in _NOT_READY:
                # What a coordinator of transactions expects of a partition that is not ready.
                raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(refusal)) from refusal
            raise

    # A whole transaction

    def complete(
        self, shard_index: int, prepared: Transaction, partitions: Collection[TopicPartition], *, is_urgent: bool
    ) -> None:
        """Writes the markers of what a coordinator on this broker has prepared, and has it completed when all are
        acknowledged. What cannot be written now is tried again.

        Unless it is urgent, what this turn of the loop answers goes out first: who ends a transaction need not wait for
        its markers. They are there all the same before a request is read that was sent after that answer.
        """
        if is_urgent:
            self._complete(shard_index, prepared, partitions)
        else:
            asyncio.get_running_loop().call_soon(self._complete, shard_index, prepared, partitions)

    def _complete(self, shard_index: int, prepared: Transaction, partitions: Collection[TopicPartition]) -> None:
        try:
            shard = self._broker.transactions.shard_at(shard_index)
        except Refusal:
            # Another broker's by now, which finds it prepared.
            return
        if shard.state.transactions.get(prepared.transactional_id) is not prepared:
            # Loaded anew, which sees to what it finds prepared.
            return
        marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            self._broker.transactions.epoch_of(shard_index),
            prepared.status is TransactionStatus.PREPARE_COMMIT,
            prepared.client_version,
        )
        waiting = sorted(partitions)
        first, rest = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        completion = _Completion(shard, prepared, len(first), rest)
        for topic, index in first:
            try:
                written = self.write(topic, index, marker)
            except Refusal as refusal:
                completion.refused((topic, index), refusal)
                continue
            if written is None:
                completion.written()
            else:
                written.then(completion.listener((topic, index)))
        completion.conclude()


def _check_epoch(log: Log, marker: Marker) -> None:
    """KIP-890: where each end has an epoch of its own, that of an open transaction cannot be its marker's: such a one
    was sent for a transaction before."""
    if marker.transaction_version < EPOCH_BUMPS_SINCE:
        return
    producer = log.producers.by_id.get(marker.producer_id)
    if producer is not None and producer.txn_first_offset >= 0 and marker.producer_epoch <= producer.epoch:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"a marker of epoch {marker.producer_epoch} cannot end what producer {marker.producer_id} has begun with "
            f"epoch {producer.epoch}",
        )


class _Completion:
    """What is still missing until a prepared transaction is complete."""

    __slots__ = ("_again", "_delay_ms", "_fenced", "_is_begun", "_missing", "_prepared", "_shard")

    def __init__(
        self, shard: Shard[TransactionState], prepared: Transaction, missing: int, rest: list[TopicPartition]
    ) -> None:
        self._shard = shard
        self._prepared = prepared
        self._missing = missing
        # What is asked next, and how much later.
        self._again = rest
        self._delay_ms = 0
        self._fenced = False
        # All partitions have been asked.
        self._is_begun = False

    def written(self) -> None:
        self._missing -= 1

    def refused(self, partition: TopicPartition, refusal: Refusal) -> None:
        self._missing -= 1
        name = self._prepared.transactional_id
        if refusal.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            _log.warning("%s is coordinated by another by now: %s", name, refusal)
            self._fenced = True
        elif refusal.error in _SETTLED:
            _log.info("the transaction of %s needs no marker in %s-%d: %s", name, *partition, refusal)
        else:
            _log.info("the marker of %s in %s-%d is tried again: %s", name, *partition, refusal)
            self._again.append(partition)
            self._delay_ms = _RETRY_MS

    def listener(self, partition: TopicPartition) -> Callable[[Refusal | None], None]:
        def heard(outcome: Refusal | None) -> None:
            if outcome is None:
                self.written()
            else:
                self.refused(partition, outcome)
            if self._is_begun:
                self.conclude()

        return heard

    def conclude(self) -> None:
        self._is_begun = True
        if self._missing or self._fenced:
            return
        prepared, again, delay_ms = self._prepared, self._again, self._delay_ms

        def decide(state: TransactionState) -> Decision[None]:
            if not again:
                return complete(state, prepared)
            state.prepare_later(prepared, again, delay_ms)
            return Decision(None)

        try:
            self._shard.decide(decide)
            if not again:
                self._shard.state.completed(prepared.transactional_id)
        except Refusal as refusal:
            if refusal.error is not ErrorCode.NOT_COORDINATOR:
                _log.warning("the end of %s is not written and is tried again: %s", prepared.transactional_id, refusal)
                self._shard.state.prepare_later(prepared, again, _RETRY_MS)
                self._shard.loaded()
