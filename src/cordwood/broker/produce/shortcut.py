"""The fast path for the most frequent request: one batch for one partition, in a Produce that begins like an earlier
one.

A producer's requests differ in their correlation id and their batch; client id, acks, timeout, topic and partition
stay. The outcome of the general path is cached by those bytes and their origin, with the response except for its
numbers, so that such a request is neither decoded nor its response encoded: 12 µs of CPU for a request of one record,
instead of 31.

Everything else (unknown bytes, an error, an unknown transaction) takes the general path.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any, NamedTuple

from cordwood.broker.broker import Broker
from cordwood.broker.handlers.produce import answer_one, refuse_all
from cordwood.broker.timeouts import Timeouts
from cordwood.broker.topic_view import INTERNAL_TOPICS
from cordwood.net.api import Call, Lesson
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.gate import Gate
from cordwood.net.measures import Measures
from cordwood.net.serving import Reply
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Part
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import ATTRIBUTES_POSITION, BATCH_HEADER_SIZE, TRANSACTIONAL_BIT
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import decode_request, encode_response
from cordwood.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from cordwood.wire.primitives import continue_uvarint, encode_uvarint
from cordwood.wire.schema import Request, Response

_API_KEY = ProduceRequest.api_key
# Flexible, with topics by name: as sent by librdkafka and clients based on it.
VERSIONS = range(9, 13)
# Number of cached beginnings: partitions times kinds of producers.
_MOST = 50_000
# The bytes between the correlation id and the topic's name: client id with length, no tags; transactional id, acks,
# timeout, one topic. After the records: no tags of the partition, the topic, the request.
_CLIENT_ID_LENGTH = 9
_BEFORE_TRANSACTIONAL_ID = 10 + 1
_BEFORE_NAME = 1 + 2 + 4 + 1
_BEHIND_NAME = 1 + 4
_END = b"\0\0\0"

_CORRELATION_ID = Struct(">i")
_NUMBERS = Struct(">qqq")
_THROTTLE_TIME = Struct(">i")
# Marker values that no response contains, to find their positions.
_MARKS = (-0x7A6B_5C4D_3E2F_1001, -0x7A6B_5C4D_3E2F_1002, -0x7A6B_5C4D_3E2F_1003)
_THROTTLE_MARK = -0x7A6B_5C4D


class _Known(NamedTuple):
    topic: str
    partition: int
    transactional_id: str | None
    acks: int
    timeout_ms: int
    client_id: str
    # The response's pieces around correlation id, numbers and throttle time, and the function that packs them.
    answer: Struct
    size: bytes
    middle: bytes
    rest: bytes
    end: bytes


class ProduceShortcut:
    def __init__(self, broker: Broker, gate: Gate) -> None:
        self._broker = broker
        self._partition = broker.replicas.get
        self._verified = broker.transactional_produce.is_verified
        self._now_ms = broker.clock.now_ms
        self._timeouts = Timeouts()
        self._authorizer, self._quotas, self._measures = gate
        self._measure = None if self._measures is None else self._measures.of(ProduceRequest.api_key)
        # By version; valid for this generation of the authorizer.
        self._known: tuple[dict[bytes, _Known], ...] = tuple({} for _ in range(VERSIONS.stop))
        self._generation = self._authorizer.generation
        self._count = 0

    def answer(self, frame: bytearray, connection: ConnectionInfo) -> list[Part] | Reply | None:
        """Returns the response to a Produce, or None if it must take the general path."""
        measures = self._measures
        began_s = 0.0 if measures is None else measures.monotonic()
        if self._authorizer.generation != self._generation:
            self._forget()
        try:
            end = _start_ends(frame)
            known = self._known[frame[3]].get(connection.origin + frame[8:end])
            if known is None:
                return None
            length = frame[end]
            begin = end + 1
            if length > 127:
                length, begin = continue_uvarint(frame, begin, length)
            end = begin + length - 1
            is_transactional = frame[begin + ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT
        except (IndexError, ValueError):
            # Truncated, or invalid lengths: the general path reports the error.
            return None
        if length <= BATCH_HEADER_SIZE or len(frame) != end + len(_END) or not frame.endswith(_END):
            return None
        topic, index, transactional_id, acks, timeout_ms, client_id, answer, size, middle, rest, tail = known
        partition = self._partition(topic, index)
        if partition is None:
            return None
        records = memoryview(frame)[begin:end]
        if transactional_id is None:
            if is_transactional:
                return None
        elif not is_transactional or not self._verified(transactional_id, partition, records, frame[3]):
            return None
        throttle_time_ms = self._quotas.throttle_time_ms(connection.principal, client_id, _API_KEY, len(frame))
        try:
            first_offset, last_offset, log_append_time_ms, _ = partition.append(records, acks, self._now_ms())
        except (Refusal, DiskError) as error:
            return self._refuse(frame, connection, partition, error, throttle_time_ms, began_s)
        log = partition.log
        if log is None:
            # Its directory has failed under a reader that the append has woken.
            offline = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {partition} is offline")
            return self._refuse(frame, connection, partition, offline, throttle_time_ms, began_s)
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 4)
        start_offset = log.start_offset
        packed = answer.pack(
            size,
            correlation_id,
            middle,
            first_offset,
            log_append_time_ms,
            start_offset,
            rest,
            throttle_time_ms,
            tail,
        )
        if last_offset < (log.high_watermark if acks == ACKS_ALL else partition.written):
            if self._measure is not None:
                self._measure.served(frame[3], len(frame), len(packed), began_s)
            return [packed]
        if self._measure is not None:
            self._measure.begun(frame[3], len(frame))
        waiting = _Waiting(
            packed, frame, connection, self._timeouts, max(0, timeout_ms), throttle_time_ms, measures, began_s
        )
        partition.acknowledge(last_offset, waiting.acknowledged, acks)
        return waiting.reply

    def _refuse(
        self,
        frame: bytearray,
        connection: ConnectionInfo,
        partition: Partition,
        refusal: Refusal | DiskError,
        throttle_time_ms: int,
        began_s: float,
    ) -> list[Part] | Reply:
        if self._measure is not None:
            self._measure.begun(frame[3], len(frame))
        request, call = _general(frame, connection, throttle_time_ms, self._measures, began_s)
        result = answer_one(self._broker, request, call, partition, refusal)
        return result if isinstance(result, Reply) else call.parts(result)

    def lesson(self, frame: bytearray, request: Request[Any], call: Call) -> Lesson | None:
        """Caches how a request of the general path begins, if others like it can take this path."""
        assert isinstance(request, ProduceRequest)
        if call.version not in VERSIONS or request.acks not in (1, ACKS_ALL):
            return None
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return None
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        if not isinstance(data.records, memoryview) or topic.name in INTERNAL_TOPICS:
            return None
        # The general path has read the same bytes: it suffices to check that it found the batch at the same place.
        try:
            end = _start_ends(frame)
        except IndexError:
            return None
        if frame[end:] != encode_uvarint(len(data.records) + 1) + data.records + _END:
            return None
        key = call.connection.origin + frame[8:end]
        generation = self._authorizer.generation

        def learn(response: Response) -> None:
            assert isinstance(response, ProduceResponse)
            is_refused = any(answer.error_code for told in response.responses for answer in told.partition_responses)
            if not is_refused and self._authorizer.generation == generation:
                self._keep(key, request, call)

        return learn

    def _keep(self, key: bytes, request: ProduceRequest, call: Call) -> None:
        if self._count >= _MOST or self._authorizer.generation != self._generation:
            self._forget()
        self._known[call.version][key] = _known(request, call)
        self._count += 1

    def _forget(self) -> None:
        for known in self._known:
            known.clear()
        self._count = 0
        self._generation = self._authorizer.generation


class _Waiting:
    """A request whose batch is written but not acknowledged yet. Its response is ready; errors are encoded by the
    general path."""

    __slots__ = (
        "_answer",
        "_began_s",
        "_connection",
        "_frame",
        "_measures",
        "_throttle_time_ms",
        "_timeout_ms",
        "_timeouts",
        "reply",
    )

    def __init__(
        self,
        answer: bytes,
        frame: bytearray,
        connection: ConnectionInfo,
        timeouts: Timeouts,
        timeout_ms: int,
        throttle_time_ms: int,
        measures: Measures | None,
        began_s: float,
    ) -> None:
        self.reply = Reply()
        self._answer = answer
        self._measures = measures
        self._began_s = began_s
        self._frame = frame
        self._connection = connection
        self._timeouts = timeouts
        self._timeout_ms = timeout_ms
        self._throttle_time_ms = throttle_time_ms
        timeouts.start(self, timeout_ms)

    def acknowledged(self, error: ErrorCode) -> None:
        if self.reply.done:
            return
        self._timeouts.stop(self, self._timeout_ms)
        if error:
            self._refuse(error)
            return
        if self._measures is not None:
            self._measures.of(ProduceRequest.api_key).answered(len(self._answer), self._began_s)
        self.reply.answer([self._answer])

    def expired(self) -> None:
        self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def _refuse(self, error: ErrorCode) -> None:
        request, call = _general(self._frame, self._connection, self._throttle_time_ms, self._measures, self._began_s)
        self.reply.answer(call.parts(refuse_all(request, error)))


def _general(
    frame: bytearray, connection: ConnectionInfo, throttle_time_ms: int, measures: Measures | None, began_s: float
) -> tuple[ProduceRequest, Call]:
    """Decodes the frame as the general path does."""
    header, request = decode_request(frame)
    assert isinstance(request, ProduceRequest)
    call = Call(header, connection, len(frame))
    call.throttle_time_ms = throttle_time_ms
    if measures is not None:
        call.go_on(measures, began_s)
    return request, call


def _start_ends(frame: bytearray) -> int:
    """Returns the position of the records' length, if the request has the layout described above."""
    transactional_id = _BEFORE_TRANSACTIONAL_ID + frame[_CLIENT_ID_LENGTH]
    # Compact lengths: one more than the number of bytes, and none for null.
    length = frame[transactional_id]
    name_length = transactional_id + (length - 1 if length else 0) + _BEFORE_NAME
    return name_length + frame[name_length] + _BEHIND_NAME


def _known(request: ProduceRequest, call: Call) -> _Known:
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    base_offset, append_time_ms, start_offset = _MARKS
    answer = PartitionProduceResponse(
        index=data.index, error_code=0, base_offset=base_offset, log_append_time_ms=append_time_ms
    )
    answer.log_start_offset = start_offset
    response = ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[answer])])
    response.throttle_time_ms = _THROTTLE_MARK
    whole = encode_response(response, call.version, 0)
    middle, _, behind = whole[8:].partition(_NUMBERS.pack(*_MARKS))
    rest, _, end = behind.partition(_THROTTLE_TIME.pack(_THROTTLE_MARK))
    return _Known(
        topic.name,
        data.index,
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        call.client_id,
        _packing(len(middle), len(rest), len(end)),
        whole[:4],
        middle,
        rest,
        end,
    )


@cache
def _packing(middle_bytes: int, rest_bytes: int, end_bytes: int) -> Struct:
    """A few structs serve all topics: with one per partition they would not fit into the processor's cache."""
    return Struct(f">4si{middle_bytes}sqqq{rest_bytes}si{end_bytes}s")
