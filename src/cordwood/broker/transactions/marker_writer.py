"""Writes markers, the control batches that commit or abort a transaction, into partitions that this broker leads.

Requested by coordinators with WriteTxnMarkers, without a connection if it is this broker's own, and by administrators
to end a hanging transaction.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from cordwood.broker.context import BrokerContext
from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.broker.produce.guards import TransactionGuards
from cordwood.coordinator.transactions.transaction import EPOCH_BUMPS_SINCE
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.replica.partition import ACKS_ALL
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
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

from .marker import Marker

_NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class MarkerWriter:
    def __init__(self, broker: BrokerContext, guards: TransactionGuards) -> None:
        self._broker = broker
        self._guards = guards
        # The last marker's batch, cached by time.
        self._made: tuple[Marker, int, bytes] | None = None

    def answer(
        self, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
        """Writes the requested markers. The response is sent when everything is acknowledged."""
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
            # Unknown producer; Kafka has no better error for that.
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
        """Ends the producer's transaction in a partition that this broker leads. Returns None if it is acknowledged, or
        a promise; raises Refusal if it cannot be written."""
        broker = self._broker
        partition = broker.hosted(topic, index)
        log = partition.leader_log()
        _check_epoch(log, marker)
        self._guards.ended(topic, index, marker)
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
        """All partitions of a transaction get the same batch, and copy it."""
        made = self._made
        if made is None or made[0] is not marker or made[1] != now_ms:
            producer_id, epoch, coordinator_epoch, commit, _ = marker
            batch = end_txn_marker(0, now_ms, producer_id, epoch, commit, coordinator_epoch, leader_epoch=-1)
            made = self._made = (marker, now_ms, bytes(batch))
        return bytearray(made[2])

    def _write_to_group_coordinator(self, index: int, marker: Marker) -> Promise[None] | None:
        """The marker makes offsets take effect, so the groups' coordinator writes it."""
        producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
        try:
            return self._broker.groups.end_transaction(index, producer, marker.coordinator_epoch, commit=marker.commit)
        except Refusal as refusal:
            if refusal.error in _NOT_READY:
                # The error that transaction coordinators expect from a partition that is not ready.
                raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(refusal)) from refusal
            raise


_Waiting = list[tuple[Promise[None] | None, WritableTxnMarkerPartitionResult]]


async def _when_acknowledged(response: WriteTxnMarkersResponse, waiting: _Waiting) -> WriteTxnMarkersResponse:
    for written, result in waiting:
        try:
            await settled(written)
        except Refusal as refusal:
            result.error_code = refusal.error
    return response


def _check_epoch(log: Log, marker: Marker) -> None:
    """KIP-890: if each end has its own epoch, a marker with the epoch of an open transaction was sent for an earlier
    one."""
    if marker.transaction_version < EPOCH_BUMPS_SINCE:
        return
    producer = log.producers.by_id.get(marker.producer_id)
    if producer is not None and producer.txn_first_offset >= 0 and marker.producer_epoch <= producer.epoch:
        raise Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"a marker of epoch {marker.producer_epoch} cannot end what producer {marker.producer_id} began with "
            f"epoch {producer.epoch}",
        )
