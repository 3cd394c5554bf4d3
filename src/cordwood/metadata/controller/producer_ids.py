"""AllocateProducerIds: assigns a block of producer ids to a broker."""

from cordwood.metadata.image import MetadataImage
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from cordwood.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord

from .brokers import check_broker_epoch

BLOCK_SIZE = 1000
_MAX_ID = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except Refusal as refusal:
        return Decision(AllocateProducerIdsResponse(error_code=refusal.error))
    first = image.next_producer_id
    if first > _MAX_ID - BLOCK_SIZE:
        return Decision(AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
    return Decision(response, [record])
