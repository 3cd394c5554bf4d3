"""Classifies the error codes of responses for a transaction (as in KIP-1050)."""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError
from cordwood.client.producer.transactions.contents import Contents
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from cordwood.wire.schema import Request


class Verdict(IntEnum):
    """From harmless to fatal: of several, the last counts."""

    DONE = 0
    AGAIN = 1
    ELSEWHERE = 2
    """Retry after a coordinator look-up."""
    REFUSED = 3
    """Refused for now; the application may call again."""
    ABORT = 4
    FENCED = 5
    FATAL = 6


_OF_EVERY_REQUEST: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: Verdict.DONE,
    ErrorCode.NOT_COORDINATOR: Verdict.ELSEWHERE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.ELSEWHERE,
    # The coordinator has left the cluster.
    ErrorCode.BROKER_NOT_AVAILABLE: Verdict.ELSEWHERE,
    ErrorCode.TRANSACTION_ABORTABLE: Verdict.ABORT,
    ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
    # The code of coordinators before Kafka 2.7.
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
}
_OF: Mapping[type[Request[Any]], Mapping[ErrorCode, Verdict]] = {
    InitProducerIdRequest: {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.REFUSED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Verdict.REFUSED,
    },
    AddPartitionsToTxnRequest: {
        ErrorCode.INVALID_TXN_STATE: Verdict.FATAL,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FATAL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.FATAL,
        ErrorCode.UNSUPPORTED_VERSION: Verdict.FATAL,
    },
    AddOffsetsToTxnRequest: {
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
        ErrorCode.INVALID_GROUP_ID: Verdict.ABORT,
    },
    TxnOffsetCommitRequest: {
        ErrorCode.REQUEST_TIMED_OUT: Verdict.ELSEWHERE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.ABORT,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.ABORT,
        ErrorCode.INVALID_GROUP_ID: Verdict.ABORT,
        ErrorCode.GROUP_ID_NOT_FOUND: Verdict.ABORT,
        ErrorCode.OFFSET_METADATA_TOO_LARGE: Verdict.ABORT,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Verdict.ABORT,
        # The group has removed the member whose offsets these are.
        ErrorCode.FENCED_INSTANCE_ID: Verdict.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: Verdict.ABORT,
        ErrorCode.ILLEGAL_GENERATION: Verdict.ABORT,
        ErrorCode.STALE_MEMBER_EPOCH: Verdict.ABORT,
        ErrorCode.FENCED_MEMBER_EPOCH: Verdict.ABORT,
    },
    EndTxnRequest: {ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.ABORT},
}
# The meaning of unknown codes: a partition that cannot be added spoils one transaction only.
_ELSE: Mapping[type[Request[Any]], Verdict] = {AddPartitionsToTxnRequest: Verdict.ABORT}


def judge_answer(request: Request[Any], response: Any, contents: Contents) -> tuple[Verdict, ErrorCode]:
    """Returns the verdict and the code that determined it."""
    if isinstance(request, AddPartitionsToTxnRequest):
        return _worst(request, dict(_added_partitions(response)), contents.adding)
    if isinstance(request, TxnOffsetCommitRequest):
        # No longer needed because the transaction has failed or was aborted.
        wanted = contents.commits[0].offsets if contents.commits else ()
        return _worst(request, dict(committed_offsets(response)), wanted)
    if isinstance(request, EndTxnRequest) and request.committed:
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.INVALID_TXN_STATE:
            # The coordinator has aborted it, most likely since it took longer than its timeout. Its own abort will show
            # whether the producer can continue.
            return Verdict.ABORT, code
    return _judge(type(request), response.error_code), ErrorCode.of(response.error_code)


def judge_failure(request: Request[Any], error: ClientError) -> Verdict:
    """No response came, or the coordinator was not found."""
    if error.retriable:
        return Verdict.ELSEWHERE
    return _judge(type(request), error.code) if isinstance(error, BrokerError) else Verdict.FATAL


def _worst(
    request: Request[Any], told: Mapping[TopicPartition, int], wanted: Iterable[TopicPartition]
) -> tuple[Verdict, ErrorCode]:
    codes = [ErrorCode.of(told.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)) for partition in wanted]
    # A partition that was not attempted failed only because of others.
    telling = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)] or codes
    judged = [(_judge(type(request), code), code) for code in telling]
    return max(judged, key=lambda one: one[0], default=(Verdict.DONE, ErrorCode.NONE))


def _judge(request: type[Request[Any]], code: int) -> Verdict:
    error = ErrorCode.of(code)
    verdict = _OF[request].get(error, _OF_EVERY_REQUEST.get(error))
    if verdict is not None:
        return verdict
    return Verdict.AGAIN if error.retriable else _ELSE.get(request, Verdict.FATAL)


def _added_partitions(response: AddPartitionsToTxnResponse) -> Iterator[tuple[TopicPartition, int]]:
    for topic in response.results_by_topic_v3_and_below:
        for told in topic.results_by_partition:
            yield TopicPartition(topic.name, told.partition_index), told.partition_error_code


def committed_offsets(response: TxnOffsetCommitResponse) -> Iterator[tuple[TopicPartition, int]]:
    for topic in response.topics:
        for told in topic.partitions:
            yield TopicPartition(topic.name, told.partition_index), told.error_code


_FATAL_TO_THE_PRODUCER = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def judge_batch(code: ErrorCode | None) -> Verdict:
    """For a batch that failed for good. An old epoch does not reveal which producer has the new one: the abort will."""
    if code == ErrorCode.PRODUCER_FENCED:
        return Verdict.FENCED
    return Verdict.FATAL if code in _FATAL_TO_THE_PRODUCER else Verdict.ABORT
