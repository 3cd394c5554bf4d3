"""AddOffsetsToTxn: the offsets of a group become part of a transaction, as the partition that holds them.

Clients know PRODUCER_FENCED since version 2.
"""

from __future__ import annotations

from cordwood.broker.asking import ask
from cordwood.broker.broker import Broker
from cordwood.broker.coordinator_topics import GROUP_TOPIC
from cordwood.broker.registry import Call, Result, handles
from cordwood.coordinator.decision import ProducerIdAndEpoch
from cordwood.coordinator.transactions.adding import add_partitions
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_SINCE = 2
# Whatever the client's is: with 2 it would have had the offsets added by their commit.
_CLIENT_VERSION = 0


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(broker: Broker, request: AddOffsetsToTxnRequest, call: Call) -> Result:
    def refused(error: ErrorCode, _message: str) -> AddOffsetsToTxnResponse:
        if error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=error)

    transactional_id = request.transactional_id
    if not transactional_id:
        return refused(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    partitions = [(GROUP_TOPIC, broker.groups.index_of(request.group_id))]
    return ask(
        call,
        broker.transactions,
        transactional_id,
        lambda state: add_partitions(
            state, transactional_id, producer, partitions, _CLIENT_VERSION, AddOffsetsToTxnResponse()
        ),
        refused,
    )
