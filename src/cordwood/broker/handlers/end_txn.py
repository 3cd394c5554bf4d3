"""EndTxn: a producer commits or aborts its transaction.

The response is sent when the outcome is committed to the coordinator's log, which makes it final. The markers follow,
on a single node mostly before the client's next request is read. Clients know PRODUCER_FENCED since version 2. Version
5 is for producers of `transaction.version` 2: the end gives them a new epoch, or after the last one a new producer id.
"""

from __future__ import annotations

from collections.abc import Callable

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask, ask_async
from cordwood.broker.transactions.producer_ids import NoProducerIds
from cordwood.coordinator.transactions.ending import end_transaction
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.net.api import Call, Result, handles
from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_SINCE = 2
_NEW_EPOCHS_SINCE = 5


@handles(EndTxnRequest)
def end_txn(broker: Broker, request: EndTxnRequest, call: Call) -> Result:
    def refused(error: ErrorCode, _message: str) -> EndTxnResponse:
        if error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(error_code=error)

    def decide(state: TransactionState) -> Decision[EndTxnResponse]:
        return end_transaction(state, request, broker.producer_ids, bumps_epoch=call.version >= _NEW_EPOCHS_SINCE)

    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    if not broker.producer_ids.are_there:
        return _when_there_are_ids(broker, request, decide, refused)
    return ask(call, broker.transactions, request.transactional_id, decide, refused)


async def _when_there_are_ids(
    broker: Broker,
    request: EndTxnRequest,
    decide: Callable[[TransactionState], Decision[EndTxnResponse]],
    refused: Callable[[ErrorCode, str], EndTxnResponse],
) -> EndTxnResponse:
    """Ending a transaction with a producer's last epoch needs a new producer id."""
    try:
        await broker.producer_ids.wait_for_more()
    except NoProducerIds:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids are available")
    return await ask_async(broker.transactions, request.transactional_id, decide, refused)
