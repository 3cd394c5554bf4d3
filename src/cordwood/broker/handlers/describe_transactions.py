"""DescribeTransactions: the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.transactions.describing import describe
from cordwood.net.api import Call, Result, handles
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


@handles(DescribeTransactionsRequest)
def describe_transactions(broker: Broker, request: DescribeTransactionsRequest, call: Call) -> Result:
    told = [_describe(broker, transactional_id) for transactional_id in request.transactional_ids]
    described = [state for state in told if not isinstance(state, Promise)]
    if len(described) == len(told):
        return DescribeTransactionsResponse(transaction_states=described)
    return _when_committed(request.transactional_ids, told)


async def _when_committed(
    transactional_ids: list[str], told: list[TransactionState | Promise[TransactionState]]
) -> DescribeTransactionsResponse:
    states = []
    for transactional_id, state in zip(transactional_ids, told, strict=True):
        try:
            states.append(await settled(state))
        except Refusal as refusal:
            states.append(_refused(transactional_id, refusal.error))
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(broker: Broker, transactional_id: str) -> TransactionState | Promise[TransactionState]:
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        return broker.transactions.shard(transactional_id).decide(lambda state: describe(state, transactional_id))
    except Refusal as refusal:
        return _refused(transactional_id, refusal.error)


def _refused(transactional_id: str, error: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=coordinator_error(error))
