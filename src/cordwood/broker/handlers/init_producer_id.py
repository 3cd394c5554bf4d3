"""InitProducerId: assigns a producer its id and epoch.

Without a transactional id the producer gets a new id with epoch 0, regardless of what it had before. With one, its
transaction coordinator decides: see `coordinator.transactions.initializing`.

Version 3 has the producer's current id and epoch, both or neither, so that it may keep the id. Clients know
PRODUCER_FENCED since version 4. Version 6, two-phase transactions (KIP-939), is not stable in Kafka 4.3: it is served
if `transaction.two.phase.commit.enable` or `unstable.api.versions.enable` is set.
"""

from __future__ import annotations

from collections.abc import Callable

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import ask, ask_async
from cordwood.broker.transactions.producer_ids import NoProducerIds
from cordwood.coordinator.transactions.initializing import init_producer_id as init_transactional_id
from cordwood.coordinator.transactions.state import TransactionState
from cordwood.net.api import Call, Result, handles
from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE = -1
_FENCED_SINCE = 4


@handles(InitProducerIdRequest, unstable_for="transaction.two.phase.commit.enable")
def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> Result:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE) or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _init_transactional_id(broker, request, request.transactional_id, call)
    producer_id = broker.producer_ids.take()
    return _from_the_next_block(broker) if producer_id is None else InitProducerIdResponse(producer_id=producer_id)


async def _from_the_next_block(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.wait())
    except NoProducerIds:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _init_transactional_id(broker: Broker, request: InitProducerIdRequest, transactional_id: str, call: Call) -> Result:
    error = _check_request(broker, request)
    if error:
        return _refused(error)

    def refused(error: ErrorCode, _message: str) -> InitProducerIdResponse:
        if error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return _refused(error)

    def decide(state: TransactionState) -> Decision[InitProducerIdResponse]:
        return init_transactional_id(state, request, broker.producer_ids)

    if not broker.producer_ids.are_there:
        return _when_there_are_ids(broker, transactional_id, decide, refused)
    result = ask(call, broker.transactions, transactional_id, decide, refused)
    if isinstance(result, InitProducerIdResponse) and result.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        # Usually the open transaction was aborted just now, markers included: spare the client the retry.
        return ask(call, broker.transactions, transactional_id, decide, refused)
    return result


async def _when_there_are_ids(
    broker: Broker,
    transactional_id: str,
    decide: Callable[[TransactionState], Decision[InitProducerIdResponse]],
    refused: Callable[[ErrorCode, str], InitProducerIdResponse],
) -> InitProducerIdResponse:
    try:
        await broker.producer_ids.wait_for_more()
    except NoProducerIds:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return await ask_async(broker.transactions, transactional_id, decide, refused)


def _check_request(broker: Broker, request: InitProducerIdRequest) -> ErrorCode:
    config = broker.config
    has_two_phases = config.flag("transaction.two.phase.commit.enable")
    if request.enable2_pc and not has_two_phases:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn and not has_two_phases:
        return ErrorCode.UNSUPPORTED_VERSION
    longest_ms = config.integer("transaction.max.timeout.ms")
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= longest_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
