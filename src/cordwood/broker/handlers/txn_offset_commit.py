"""TxnOffsetCommit: commits offsets as part of a producer's transaction.

Version 2 adds leader epochs; version 3 the committing member, so that a removed one is fenced; from version 5 on this
request adds the coordinator's partition to the transaction (KIP-890), without AddOffsetsToTxn.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import answer_all, consult
from cordwood.broker.produce.transactional import Refusals
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.offset_commit import Commit, commit_transactional_offsets
from cordwood.net.api import Call, Result, handles
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from cordwood.wire.primitives import ZERO_UUID

# Clients of earlier versions do not know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
_LOADING_SINCE = 2

_Result = TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(broker: Broker, request: TxnOffsetCommitRequest, call: Call) -> Result:
    response = TxnOffsetCommitResponse(topics=[])
    commits = []
    for asked in request.topics:
        topic = broker.image.topics.get(asked.name)
        answers = []
        for partition in asked.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if topic is None or partition.partition_index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                # Kafka stores no topic id with these.
                commits.append(Commit(asked.name, ZERO_UUID, partition, answer))
        if answers:
            response.topics.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=answers))
    if not commits:
        return response
    if not request.group_id:
        return _refused(response, ErrorCode.INVALID_GROUP_ID)
    index = broker.groups.index_of(request.group_id)
    refusals = broker.transactional_produce.check_offsets(request, index, call.version)
    if isinstance(refusals, Promise):
        result: _Result = _when_checked(broker, request, commits, response, call, refusals)
    else:
        result = _commit_unless_refused(broker, request, commits, response, call, refusals)
    return answer_all(call, [result], lambda results: results[0])


def _when_checked(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    commits: list[Commit],
    response: TxnOffsetCommitResponse,
    call: Call,
    checked: Promise[Refusals],
) -> Promise[TxnOffsetCommitResponse]:
    committed: Promise[TxnOffsetCommitResponse] = Promise()

    def commit(refusals: Refusals | Refusal) -> None:
        """Commits in the same turn of the loop, so that the transaction can't end in between."""
        assert not isinstance(refusals, Refusal)
        result = _commit_unless_refused(broker, request, commits, response, call, refusals)
        if isinstance(result, Promise):
            result.then(committed.resolve)
        else:
            committed.resolve(result)

    checked.then(commit)
    return committed


def _commit_unless_refused(
    broker: Broker,
    request: TxnOffsetCommitRequest,
    commits: list[Commit],
    response: TxnOffsetCommitResponse,
    call: Call,
    refusals: Refusals,
) -> _Result:
    for refusal in refusals.values():
        return _refused(response, _error_for(refusal.error, call.version))
    return consult(
        broker.groups,
        request.group_id,
        lambda state: commit_transactional_offsets(state, request, commits, response, call.version),
        lambda error, _message: _refused(response, error),
        lambda error: _error_for(error, call.version),
    )


def _error_for(error: ErrorCode, version: int) -> ErrorCode:
    told = coordinator_error(error)
    if told == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return told


def _refused(response: TxnOffsetCommitResponse, error: ErrorCode) -> TxnOffsetCommitResponse:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = error
    return response
