"""ListTransactions: the transactional ids that this broker coordinates and that pass the filters (KIP-664).

Version 1 filters by duration (KIP-994), version 2 by a pattern that matches the whole id (KIP-1152; in RE2's syntax).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.transactions.describing import Wanted
from cordwood.coordinator.transactions.describing import list_transactions as listed
from cordwood.coordinator.transactions.statuses import BY_LABEL
from cordwood.net.api import Call, handles
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@handles(ListTransactionsRequest)
async def list_transactions(broker: Broker, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    if broker.transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    statuses = {BY_LABEL[label] for label in request.state_filters if label in BY_LABEL}
    matches = None
    if request.transactional_id_pattern:
        import re2  # type: ignore[import-untyped]

        options = re2.Options()
        # Otherwise RE2 writes to standard error, past every logger.
        options.log_errors = False
        try:
            matches = re2.compile(request.transactional_id_pattern, options).fullmatch
        except re2.error:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    response = ListTransactionsResponse(
        unknown_state_filters=[label for label in request.state_filters if label not in BY_LABEL]
    )
    wanted = Wanted(
        statuses if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        matches,
    )
    for shard in broker.transactions.shards:
        try:
            found = await settled(shard.decide(lambda state: listed(state, wanted)))
        except Refusal as refusal:
            return ListTransactionsResponse(error_code=coordinator_error(refusal.error))
        response.transaction_states += found
    return response
