"""Markers: the control batches that commit or abort a transaction, one in each of its partitions.

They are written by whoever leads the partition, when a coordinator asks for it with WriteTxnMarkers, or an
administrator who ends what hangs. A coordinator asks the leaders on its own broker in the same way, without a
connection. A transaction is complete when all of its partitions have theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from cordwood.config.peer_settings import peer_settings
from cordwood.coordinator.transactions.ending import complete
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE, TopicPartition, Transaction
from cordwood.log.log import Log
from cordwood.log.producers import AppendOrigin
from cordwood.replica.partition import ACKS_ALL
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from .coordinator_topics import GROUP_TOPIC
from .marker_sender import Marker, MarkerSender
from .peers import BrokerPeers

if TYPE_CHECKING:
    from .broker import Broker

_log = logging.getLogger(__name__)

# How long it takes until a completion that could not be written is tried again.
_RETRY_MS = 100
_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class TxnMarkers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config, listener = broker.config, broker.config.listeners.inter_broker
        settings = peer_settings(config, listener, f"broker-{broker.id}-txn-marker-sender")
        peers = BrokerPeers(broker.network, settings, broker.random, listener)
        self.sender = MarkerSender(broker.id, _ThisBroker(self), peers, broker.random)
        # The batch of a marker at a time, as it was made last.
        self._made: tuple[Marker, int, bytes] | None = None

    # Partitions that this broker leads

    def answer(
        self, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
        """Writes what is asked for. The response comes when everything is acknowledged."""
        waiting: _Waiting = []
        response = WriteTxnMarkersResponse(markers=[self._write_all(asked, waiting) for asked in request.markers])
        return _when_acknowledged(response, waiting) if waiting else response

    def _write_all(self, asked: WritableTxnMarker, waiting: _Waiting) -> WritableTxnMarkerResult:
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            asked.transaction_result,
            asked.transaction_version,
        )
        return WritableTxnMarkerResult(
            producer_id=asked.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        self._write_one(topic.name, index, marker, waiting) for index in topic.partition_indexes
                    ],
                )
                for topic in asked.topics
            ],
        )

    def _write_one(self, topic: str, index: int, marker: Marker, waiting: _Waiting) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(partition_index=index)
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            # There is no such producer, and Kafka has no better word for that.
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            return result
        try:
            written = self.write(topic, index, marker)
        except Refusal as refusal:
            result.error_code = refusal.error
        else:
            if written is not None:
                waiting.append((written, result))
        return result

    def write(self, topic: str, index: int, marker: Marker) -> Promise[None] | None:
        """Ends the producer's transaction in a partition that this broker leads. None: it is acknowledged; Refusal if
        it cannot be written, or as what comes of it later."""
        broker = self._broker
        partition = broker.hosted(topic, index)
        log = partition.leader_log()
        _check_epoch(log, marker)
        broker.transactional_produce.ended(topic, index, marker)
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
        if not self._is_prepared(shard_index, prepared):
            return
        shard = self._broker.transactions.shard_at(shard_index)
        marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            self._broker.transactions.epoch_of(shard_index),
            prepared.status is TransactionStatus.PREPARE_COMMIT,
            prepared.client_version,
        )

        def is_wanted() -> bool:
            return self._is_prepared(shard_index, prepared)

        written = self.sender.write(marker, sorted(partitions), is_wanted)
        written.then(lambda outcome: _conclude(shard, prepared, outcome))

    def _is_prepared(self, shard_index: int, prepared: Transaction) -> bool:
        """False once another broker coordinates the transaction, or this one has loaded it anew: whoever has loaded it
        sees to what is prepared."""
        try:
            state = self._broker.transactions.shard_at(shard_index).state
        except Refusal:
            return False
        return state.transactions.get(prepared.transactional_id) is prepared


class _ThisBroker:
    """The `MarkerPeer` for partitions that this broker leads: the request goes to where one from a connection goes."""

    def __init__(self, markers: TxnMarkers) -> None:
        self._markers = markers

    def send(
        self, request: WriteTxnMarkersRequest, /
    ) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
        return self._markers.answer(request)


_Waiting = list[tuple[Promise[None] | None, WritableTxnMarkerPartitionResult]]


async def _when_acknowledged(response: WriteTxnMarkersResponse, waiting: _Waiting) -> WriteTxnMarkersResponse:
    for written, result in waiting:
        try:
            await settled(written)
        except Refusal as refusal:
            result.error_code = refusal.error
    return response


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


def _conclude(shard: Shard[TransactionState], prepared: Transaction, outcome: Refusal | None) -> None:
    """Completes the transaction, now that all markers are written."""
    name = prepared.transactional_id
    if outcome is not None:
        if outcome.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # Another broker coordinates it, which the metadata will say; or did so in between, and this broker has a
            # later epoch by now.
            _log.info(
                "Transactional id %s: markers refused, retrying as long as it is coordinated here: %s", name, outcome
            )
            shard.state.prepare_later(prepared, prepared.partitions, _RETRY_MS)
            shard.loaded()
        return
    try:
        shard.decide(lambda state: complete(state, prepared))
        shard.state.completed(name)
    except Refusal as refusal:
        if refusal.error is not ErrorCode.NOT_COORDINATOR:
            _log.warning("Transactional id %s: cannot write the completion, retrying: %s", name, refusal)
            shard.state.prepare_later(prepared, (), _RETRY_MS)
            shard.loaded()
