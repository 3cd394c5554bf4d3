"""WriteTxnMarkers: ends transactions in partitions that this broker leads.

Coordinators ask for it; an administrator may, to end what hangs, with the producer's epoch as DescribeProducers tells.
Version 2 says which `transaction.version` the transaction is of (KIP-890).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.txn_markers import Marker
from cordwood.net.api import Call, Result, handles
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_Waiting = list[tuple[Promise[None] | None, WritableTxnMarkerPartitionResult]]


@handles(WriteTxnMarkersRequest)
def write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> Result:
    waiting: _Waiting = []
    response = WriteTxnMarkersResponse(markers=[_write(broker, marker, waiting) for marker in request.markers])
    return _when_acknowledged(response, waiting) if waiting else response


async def _when_acknowledged(response: WriteTxnMarkersResponse, waiting: _Waiting) -> WriteTxnMarkersResponse:
    for written, result in waiting:
        try:
            await settled(written)
        except Refusal as refusal:
            result.error_code = refusal.error
    return response


def _write(broker: Broker, asked: WritableTxnMarker, waiting: _Waiting) -> WritableTxnMarkerResult:
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
                    _write_one(broker, topic.name, index, marker, waiting) for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )


def _write_one(
    broker: Broker, topic: str, index: int, marker: Marker, waiting: _Waiting
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=index)
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        # There is no such producer, and Kafka has no better word for that.
        result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return result
    try:
        written = broker.coordinators.markers.write(topic, index, marker)
    except Refusal as refusal:
        result.error_code = refusal.error
    else:
        if written is not None:
            waiting.append((written, result))
    return result
