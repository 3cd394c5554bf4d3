"""Producers of a workload: a plain one that sends once, and an idempotent one that sends until it is answered."""

import asyncio
from collections import deque

from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import NetworkError
from cordwood.sim.histories.history import Outcome, Partition, Send, SequenceGap
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

from .batches import encode, new_send
from .client import Client, Over, Run, by_topic

_ACKS = (0, 1, -1)
# With replicas, records acknowledged by one of them may be lost with it.
_REPLICATED_ACKS = (0, -1, -1, -1)
_ZSTD_SINCE = 7
_TIMEOUT_MS = 3_000
_REQUEST_TIMEOUT_S = 5.0
_CORRUPT = 0.03
_MAX_PAUSE_S = 0.4
# As many as a broker remembers of a producer.
_MAX_IN_FLIGHT = 5

# The broker says that it did not append.
_REFUSALS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
# The broker rejects a batch as out of sequence.
_SEQUENCE_ERRORS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}


class PlainProducer(Client):
    """One request at a time, to one or more partitions; unanswered requests are not sent again."""

    async def work(self) -> None:
        try:
            while True:
                await self._produce()
                await self.pause(_MAX_PAUSE_S)
        except Over:
            return

    async def _produce(self) -> None:
        acks = self.source.choice(_ACKS if self.run.cluster is None else _REPLICATED_ACKS)
        count = self.source.choice((1, 1, 1, 2, 3))
        partitions = self.source.sample(self.run.partitions, min(count, len(self.run.partitions)))
        partitions = self.routes.led_together(partitions)
        try:
            channel = await self.channel_to_leader(partitions[0])
        except NetworkError:
            return
        sends = {partition: new_send(self, partition, acks) for partition in partitions}
        batches = {partition: encode(self, send) for partition, send in sends.items()}
        if self.chance(_CORRUPT):
            broken = self.source.choice(list(batches.values()))
            # After the checksum, which covers everything that follows it.
            broken[self.source.randrange(21, len(broken))] ^= 1 << self.source.randrange(8)
        version = self.source.randint(_ZSTD_SINCE, ProduceRequest.stable_versions.high)
        request = produce_request(self.run, batches, acks)
        try:
            if acks == 0:
                await channel.send_only(request, version)
                return
            response = await channel.request(request, version, _REQUEST_TIMEOUT_S)
        except NetworkError:
            channel.abort()
            return
        for (topic, index), answer in answers_of(self.run, response):
            note_answer(self, sends[topic, index], answer)


class IdempotentProducer(Client):
    """To one partition, several requests in flight; all unanswered requests are sent again, in order."""

    def __init__(self, run: Run, name: str, partition: Partition, acks: int = -1) -> None:
        super().__init__(run, name)
        self._partition = partition
        self._acks = acks
        self._producer_id = -1
        self._next_sequence = 0
        self._unanswered: deque[tuple[Send, bytearray]] = deque()
        # Each with the time at which it was sent.
        self._in_flight: deque[tuple[float, asyncio.Task[ProduceResponse]]] = deque()

    async def work(self) -> None:
        try:
            while True:
                try:
                    await self._stream(await self.channel_to_leader(self._partition))
                except NetworkError:
                    await self._forget_in_flight()
                    await self.pause(0.1)
        except Over:
            await self._forget_in_flight()

    async def _stream(self, channel: Channel) -> None:
        """Until something goes wrong."""
        if self._producer_id < 0:
            answer = await channel.request(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
                InitProducerIdRequest.stable_versions.high,
                _REQUEST_TIMEOUT_S,
            )
            if answer.error_code:
                raise NetworkError("no producer id")
            self._producer_id = answer.producer_id
            self._next_sequence = 0
        for send, batch in self._unanswered:
            send.attempts += 1
            self._transmit(channel, batch)
        while not self.run.is_over:
            while len(self._in_flight) < _MAX_IN_FLIGHT and (not self._in_flight or self.chance(0.6)):
                self._transmit(channel, self._next_batch())
            await self._take_answer()
            await self.pause(_MAX_PAUSE_S / 2)
        raise Over

    def _next_batch(self) -> bytearray:
        send = new_send(self, self._partition, self._acks)
        send.producer_id = self._producer_id
        send.sequence = self._next_sequence
        self._next_sequence += len(send.values)
        batch = encode(self, send)
        self._unanswered.append((send, batch))
        return batch

    def _transmit(self, channel: Channel, batch: bytearray) -> None:
        request = produce_request(self.run, {self._partition: bytearray(batch)}, self._acks)
        version = self.source.randint(_ZSTD_SINCE, ProduceRequest.stable_versions.high)
        answer = asyncio.ensure_future(channel.request(request, version, _REQUEST_TIMEOUT_S))
        self._in_flight.append((self.run.now_s, answer))

    async def _take_answer(self) -> None:
        sent_s, coming = self._in_flight[0]
        response = await coming
        self._in_flight.popleft()
        send, _ = self._unanswered[0]
        ((_, answer),) = answers_of(self.run, response)
        if answer.error_code in _SEQUENCE_ERRORS:
            # Nothing before it is unanswered, so it should follow.
            run = self.run
            node_id = -1 if run.cluster is None else run.node_of(self.incarnation)
            gap = SequenceGap(send, answer.error_code, self.incarnation, sent_s, run.now_s, node_id)
            run.history.sequence_gaps.append(gap)
            self._unanswered.clear()
            self._producer_id = -1
            raise NetworkError("begins anew")
        if answer.error_code:
            raise NetworkError(f"error {answer.error_code}: sent again")
        note_answer(self, send, answer)
        self._unanswered.popleft()

    async def _forget_in_flight(self) -> None:
        self.disconnect()
        await asyncio.gather(*(coming for _, coming in self._in_flight), return_exceptions=True)
        self._in_flight.clear()


def produce_request(run: Run, batches: dict[Partition, bytearray], acks: int) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=run.topic_ids[topic],
                partition_data=[PartitionProduceData(index=index, records=batches[topic, index]) for index in indexes],
            )
            for topic, indexes in by_topic(list(batches))
        ],
    )


def answers_of(run: Run, response: ProduceResponse) -> list[tuple[Partition, PartitionProduceResponse]]:
    names = {topic_id: name for name, topic_id in run.topic_ids.items()}
    return [
        ((topic.name or names[topic.topic_id], answer.index), answer)
        for topic in response.responses
        for answer in topic.partition_responses
    ]


def note_answer(client: Client, send: Send, answer: PartitionProduceResponse) -> None:
    send.ended_s = client.run.now_s
    send.incarnation = client.incarnation
    if not answer.error_code:
        send.outcome = Outcome.ACKNOWLEDGED
        send.base_offset = answer.base_offset
        send.start_offset = answer.log_start_offset
    else:
        send.error = answer.error_code
        if answer.error_code in _REFUSALS:
            send.outcome = Outcome.REFUSED
