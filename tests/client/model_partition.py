"""A partition as brokers keep it, as far as producers can see: sequences, epochs, the last five batches of each.

It accepts and refuses batches like Kafka's ProducerAppendInfo; tests hold a producer against it, and make it fail.
"""

from collections import deque
from dataclasses import dataclass, field

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from cordwood.wire.records import decode_batch, read_header

_SEQUENCES = 1 << 31


@dataclass
class ProducerState:
    epoch: int
    next_sequence: int
    last_batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """First sequence, number of records, offset."""


class ModelPartition:
    def __init__(self, largest_batch: int | None = None) -> None:
        self.values: list[bytes | None] = []
        self.log_start_offset = 0
        self.producers: dict[int, ProducerState] = {}
        self.largest_batch = largest_batch

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[ErrorCode, int]:
        """And the offset of its first record."""
        header = read_header(batch)
        if self.largest_batch is not None and header.count > self.largest_batch:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.producer_id >= 0:
            error, offset = self._check(header.producer_id, header.producer_epoch, header.base_sequence, header.count)
            if error is not None:
                return error, offset
        offset = len(self.values)
        self.values += [record.value for record in decode_batch(batch)]
        if header.producer_id >= 0:
            state = self.producers[header.producer_id]
            state.next_sequence = (header.base_sequence + header.count) % _SEQUENCES
            state.last_batches.append((header.base_sequence, header.count, offset))
        return ErrorCode.NONE, offset

    def _check(self, producer_id: int, epoch: int, sequence: int, count: int) -> tuple[ErrorCode | None, int]:
        state = self.producers.get(producer_id)
        if state is None:
            self.producers[producer_id] = ProducerState(epoch, sequence)
            return None, -1
        if epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if epoch > state.epoch:
            if sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[producer_id] = ProducerState(epoch, 0)
            return None, -1
        for first, records, offset in state.last_batches:
            if (first, records) == (sequence, count):
                return ErrorCode.NONE, offset
        return (None if sequence == state.next_sequence else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1


def answer(request: ProduceRequest, told: dict[tuple[str, int], PartitionProduceResponse]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[told[topic.name, data.index] for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def records_of(data: PartitionProduceData) -> bytes | bytearray | memoryview:
    assert isinstance(data.records, bytes | bytearray | memoryview)
    return data.records
