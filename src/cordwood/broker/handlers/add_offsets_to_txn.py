"""AddOffsetsToTxn: adds a group's offsets to a transaction, by the partition that stores them.

Clients know PRODUCER_FENCED since version 2.
"""

from __future__ import annotations

from collections.abc import Callable

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask, ask_async
from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.broker.transactions.patience import Patience
from cordwood.coordinator.transactions.adding import add_partitions
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.net.api import Call, Result, handles
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_SINCE = 2
# In any client version: with 2 the commit would have added the partition.
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

    def decide(state: TransactionState) -> Decision[AddOffsetsToTxnResponse]:
        response = AddOffsetsToTxnResponse()
        return add_partitions(state, transactional_id, producer, partitions, _CLIENT_VERSION, response)

    result = ask(call, broker.transactions, transactional_id, decide, refused)
    return _patiently(broker, transactional_id, decide, refused) if _is_early(result) else result


async def _patiently(
    broker: Broker,
    transactional_id: str,
    decide: Callable[[TransactionState], Decision[AddOffsetsToTxnResponse]],
    refused: Callable[[ErrorCode, str], AddOffsetsToTxnResponse],
) -> AddOffsetsToTxnResponse:
    patience = Patience(broker, transactional_id)
    response = await ask_async(broker.transactions, transactional_id, decide, refused)
    while _is_early(response) and await patience.waited():
        response = await ask_async(broker.transactions, transactional_id, decide, refused)
    return response


def _is_early(result: object) -> bool:
    """True if the previous transaction is not complete yet."""
    return isinstance(result, AddOffsetsToTxnResponse) and result.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
