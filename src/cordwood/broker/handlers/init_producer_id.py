"""InitProducerId: a producer gets its id and epoch.

Without a transactional id it gets a new id with epoch 0, whatever it had before. With one, its transaction coordinator
decides; there is none on this broker yet.

Version 3 lets a producer say which id and epoch it has, so that it may keep the id: both or neither.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.producer_ids import NoProducerIds
from cordwood.broker.registry import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE = -1


@handles(InitProducerIdRequest)
def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> Result:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE) or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not 0 < request.transaction_timeout_ms <= broker.config.integer("transaction.max.timeout.ms"):
            return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = broker.producer_ids.take()
    return _from_the_next_block(broker) if producer_id is None else InitProducerIdResponse(producer_id=producer_id)


async def _from_the_next_block(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.wait())
    except NoProducerIds:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE)
