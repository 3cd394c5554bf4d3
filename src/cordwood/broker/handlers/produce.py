"""Produce: appends batches to the partitions that this broker leads.

Each partition takes one batch per request and has its own result: the base offset, or an error. With acks=0 there is no
response, and an error closes the connection so that the client notices. Otherwise the response waits until every batch
is acknowledged (see `replica.partition`), at most `timeout_ms`.

Versions 0 to 2 had batches before magic 2; they are advertised, since some clients consider a broker without version 0
broken, and refused. Version 3 adds magic 2 and transactions, 7 zstd, 8 an error per record, 10 the leader that a client
should use, 12 transactions whose partitions this request adds (see `produce.transactional`), 13 topic ids instead of
names.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from typing import Any

from cordwood.broker.broker import Broker
from cordwood.broker.produce.transactional import Refusals, Unverified
from cordwood.broker.topic_view import INTERNAL_TOPICS
from cordwood.log.log import Appended
from cordwood.net.api import Call, Result, handles
from cordwood.net.serving import BadRequest, Reply
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.runtime.disk import Buffer, DiskError
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_SIZE,
    CODEC_BITS,
    TRANSACTIONAL_BIT,
    batch_headers,
)
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_TOPIC_IDS_SINCE = 13
_LEADERS_SINCE = 10
_ZSTD_SINCE = 7
_ACKS = (0, 1, ACKS_ALL)
# Kafka's own tools may write where clients may not.
_ADMIN_CLIENT = "__admin_client"
# In the lower byte of a batch's attributes.
_ATTRIBUTES = ATTRIBUTES_POSITION + 1
# Kafka returns the log start offset with a log's errors, except these.
_WITHOUT_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

Outcome = Appended | Refusal | DiskError
# A batch with a pending acknowledgement: its partition, last offset and result.
_Waiting = tuple[Partition, int, PartitionProduceResponse]


@handles(ProduceRequest, advertised_from=0)
def produce(broker: Broker, request: ProduceRequest, call: Call) -> Result:
    if request.acks not in _ACKS:
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is None:
        return _append_all(broker, request, call, {})
    refusals = broker.transactional_produce.check(request, call.version)
    if isinstance(refusals, Promise):
        return _when_checked(broker, request, call, refusals)
    return _append_all(broker, request, call, refusals)


def _append_all(
    broker: Broker, request: ProduceRequest, call: Call, refusals: Refusals, reply: Reply | None = None
) -> ProduceResponse | Reply | None:
    """Appends all batches except those that their transaction's coordinator refuses. `reply` is the response so far, if
    there is one."""
    acks = request.acks
    now_ms = broker.clock.now_ms()
    by_id = call.version >= _TOPIC_IDS_SINCE
    response = ProduceResponse(responses=[])
    waiting: list[_Waiting] = []
    for topic in request.topic_data:
        name = broker.topic_name(topic.topic_id) if by_id else topic.name
        answers: list[PartitionProduceResponse] = []
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
        for data in topic.partition_data:
            if name is None:
                answers.append(_refused(data.index, ErrorCode.UNKNOWN_TOPIC_ID, None))
                continue
            partition = broker.partition(name, data.index)
            if partition is None:
                answers.append(_refused_unknown(broker, name, data.index))
                continue
            refusal = _refuse_batch(request, name, data, call)
            if refusal is not None:
                answers.append(refusal)
                continue
            if refusals and (name, data.index) in refusals:
                answers.append(_refused_in_transaction(partition, data, refusals[name, data.index]))
                continue
            records: Buffer = data.records  # type: ignore[assignment]  # as decoded, and `_refuse_batch` has looked
            outcome = try_append(partition, records, acks, now_ms)
            answers.append(_answer(broker, partition, data, outcome, acks, waiting))
    return _conclude(broker, request, call, response, waiting, reply)


def _when_checked(broker: Broker, request: ProduceRequest, call: Call, checked: Promise[Refusals]) -> Reply:
    reply = Reply()

    def append(refusals: Refusals | Refusal) -> None:
        assert not isinstance(refusals, Refusal)
        try:
            result = _append_all(broker, request, call, refusals, reply)
        except Exception as error:  # noqa: BLE001 - what the handler would have raised
            reply.fail(error)
            return
        if result is not reply:
            assert not isinstance(result, Reply)
            reply.answer(None if result is None else call.parts(result))

    checked.then(append)
    return reply


def answer_one(
    broker: Broker, request: ProduceRequest, call: Call, partition: Partition, outcome: Outcome
) -> ProduceResponse | Reply:
    """Answers a request with one batch that was appended already, or refused; not with acks=0."""
    topic = request.topic_data[0]
    waiting: list[_Waiting] = []
    answer = _answer(broker, partition, topic.partition_data[0], outcome, request.acks, waiting)
    told = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
    result = _conclude(broker, request, call, ProduceResponse(responses=[told]), waiting)
    assert result is not None
    return result


def _conclude(
    broker: Broker,
    request: ProduceRequest,
    call: Call,
    response: ProduceResponse,
    waiting: list[_Waiting],
    reply: Reply | None = None,
) -> ProduceResponse | Reply | None:
    if call.version >= _LEADERS_SINCE:
        _tell_leaders(broker, request, response, call)
    if request.acks == 0:
        _close_on_error(response)
        return None
    return _when_acknowledged(response, waiting, request, call, reply) if waiting else response


def try_append(partition: Partition, records: Buffer, acks: int, now_ms: int) -> Outcome:
    try:
        return partition.append(records, acks, now_ms)
    except (Refusal, DiskError) as error:
        return error


def _answer(
    broker: Broker,
    partition: Partition,
    data: PartitionProduceData,
    outcome: Outcome,
    acks: int,
    waiting: list[_Waiting],
) -> PartitionProduceResponse:
    if isinstance(outcome, Refusal):
        return _refused_append(partition, data, outcome)
    if isinstance(outcome, DiskError):
        broker.replicas.disk_failed(outcome)
        return _refused(data.index, ErrorCode.KAFKA_STORAGE_ERROR, str(outcome))
    log = partition.log
    assert log is not None
    answer = PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=outcome.first_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=log.start_offset,
    )
    if not partition.is_acknowledged(outcome.last_offset, acks):
        waiting.append((partition, outcome.last_offset, answer))
    return answer


# Refusals


def refuse_all(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(data.index, error, None) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _refused(index: int, error: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1, error_message=message)


def _refused_unknown(broker: Broker, topic: str, index: int) -> PartitionProduceResponse:
    if broker.image.topics.partition(topic, index) is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    return _refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def _refuse_batch(
    request: ProduceRequest, topic: str, data: PartitionProduceData, call: Call
) -> PartitionProduceResponse | None:
    """Refuses what the log does not check; looks at a single byte of the batch."""
    records = data.records
    if not isinstance(records, bytes | bytearray | memoryview) or len(records) < BATCH_HEADER_SIZE:
        return _refused(data.index, ErrorCode.INVALID_RECORD, "there is no record batch for the partition")
    attributes = records[_ATTRIBUTES]
    if attributes & TRANSACTIONAL_BIT and request.transactional_id is None:
        return _refused(
            data.index,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a batch of a transaction comes without a transactional id",
        )
    if call.version < _ZSTD_SINCE and attributes & CODEC_BITS == Codec.ZSTD:
        return _refused(
            data.index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"version {call.version} has no zstd, it came with 7"
        )
    if topic in INTERNAL_TOPICS and call.client_id != _ADMIN_CLIENT:
        return _refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients do not write to {topic}")
    return None


def _refused_in_transaction(
    partition: Partition, data: PartitionProduceData, refusal: Refusal
) -> PartitionProduceResponse:
    if isinstance(refusal, Unverified):
        return _refused(data.index, refusal.error, str(refusal))
    return _refused_append(partition, data, refusal)


def _refused_append(partition: Partition, data: PartitionProduceData, refusal: Refusal) -> PartitionProduceResponse:
    answer = _refused(data.index, refusal.error, str(refusal))
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=message)
        for number, message in refusal.record_errors
    ]
    if partition.log is not None and refusal.error not in _WITHOUT_START and _holds_one_batch(data.records):
        answer.log_start_offset = partition.log.start_offset
    return answer


def _holds_one_batch(records: Any) -> bool:
    """Kafka checks this before it passes the batch to the log."""
    magics = [header.magic for _, header in batch_headers(records)]
    return magics == [2]


def _tell_leaders(broker: Broker, request: ProduceRequest, response: ProduceResponse, call: Call) -> None:
    """KIP-951: a broker that is not the leader names it."""
    leaders: set[int] = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                name = topic.name or broker.topic_name(topic.topic_id) or ""
                state = broker.image.topics.partition(name, answer.index)
                if state is not None:
                    answer.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                    leaders.add(state.leader)
    if leaders:
        endpoints = broker.endpoints(call.connection.listener)
        response.node_endpoints = [
            NodeEndpoint(node_id=node, host=endpoints[node].host, port=endpoints[node].port, rack=broker.rack(node))
            for node in sorted(leaders)
            if node in endpoints
        ]


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise BadRequest(
                    f"a Produce with acks=0 was refused: {ErrorCode(answer.error_code).name} for "
                    f"{topic.name}-{answer.index}: {answer.error_message}"
                )


# Waiting for acknowledgements


def _when_acknowledged(
    response: ProduceResponse,
    waiting: list[_Waiting],
    request: ProduceRequest,
    call: Call,
    reply: Reply | None,
) -> Reply | ProduceResponse:
    pending = _PendingProduce(response, call, reply or Reply())
    for partition, offset, answer in waiting:
        if partition.log is None:
            # A later append of this request took the directory offline.
            _withdraw(answer, ErrorCode.KAFKA_STORAGE_ERROR)
        elif not partition.acknowledge(offset, pending.acknowledged(answer), request.acks):
            pending.outstanding[id(answer)] = answer
    if not pending.outstanding:
        return response
    pending.expire_after(request.timeout_ms)
    return pending.reply


class _PendingProduce:
    """A response that is complete except for pending acknowledgements."""

    __slots__ = ("_call", "_response", "_timer", "outstanding", "reply")

    def __init__(self, response: ProduceResponse, call: Call, reply: Reply) -> None:
        self.reply = reply
        self.outstanding: dict[int, PartitionProduceResponse] = {}
        self._response = response
        self._call = call
        self._timer: TimerHandle | None = None

    def expire_after(self, timeout_ms: int) -> None:
        self._timer = get_running_loop().call_later(max(0, timeout_ms) / 1000, self._expired)

    def acknowledged(self, answer: PartitionProduceResponse) -> Callable[[ErrorCode], None]:
        def acknowledge(error: ErrorCode) -> None:
            if self.outstanding.pop(id(answer), None) is not None:
                if error:
                    _withdraw(answer, error)
                if not self.outstanding:
                    self._answer()

        return acknowledge

    def _expired(self) -> None:
        for answer in self.outstanding.values():
            _withdraw(answer, ErrorCode.REQUEST_TIMED_OUT)
        self.outstanding.clear()
        self._answer()

    def _answer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.reply.answer(self._call.parts(self._response))


def _withdraw(answer: PartitionProduceResponse, error: ErrorCode) -> None:
    answer.error_code = error
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
