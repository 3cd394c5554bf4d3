"""Commits offsets, immediately or in a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
)
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
)
from cordwood.wire.primitives import Uuid

from .classic.sessions import renew_session_by_commit
from .group import Group, PartitionCheck
from .state import GroupState

R = TypeVar("R")

# From this version on Kafka returns GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION.
_GROUP_ID_NOT_FOUND_SINCE = 9
_BROKERS_RETENTION = -1
_VALUE_VERSION = 4
# The last version in which an offset has its own expiry time.
_EXPIRING_VALUE_VERSION = 1


class Commit(NamedTuple):
    """One existing partition of a request; `answer` is its entry in the response."""

    topic: str
    topic_id: Uuid
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
    answer: OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition


def commit_offsets(
    state: GroupState, request: OffsetCommitRequest, commits: Sequence[Commit], response: R, version: int
) -> Decision[R]:
    """`response` has an entry for every partition; those of `commits` are filled in."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    check = _check(group, request, version)
    if isinstance(group, ClassicGroup):
        renew_session_by_commit(state, group, request.member_id)
    now_ms = state.clock.now_ms()
    if request.retention_time_ms == _BROKERS_RETENTION:
        return Decision(response, _records(state, group_id, commits, check, now_ms))
    expire_ms = now_ms + request.retention_time_ms
    records = _records(state, group_id, commits, check, now_ms, expire_ms)
    return Decision(response, [record._replace(version=_EXPIRING_VALUE_VERSION) for record in records])


def _check(group: Group | None, request: OffsetCommitRequest, version: int) -> PartitionCheck | None:
    generation = request.generation_id_or_member_epoch
    if group is not None:
        return group.check_offset_commit(
            request.member_id, request.group_instance_id, generation, transactional=False, version=version
        )
    if generation >= 0:
        # A client without a generation creates the group by committing.
        if version >= _GROUP_ID_NOT_FOUND_SINCE:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id}")
    return None


def commit_transactional_offsets(
    state: GroupState, request: TxnOffsetCommitRequest, commits: Sequence[Commit], response: R, version: int
) -> Decision[R]:
    """The offsets take effect when the producer's transaction is committed."""
    group = state.groups.get(request.group_id)
    check = _check_transactional(group, request, version)
    return Decision(
        response,
        _records(state, request.group_id, commits, check, state.clock.now_ms()),
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
    )


def _check_transactional(group: Group | None, request: TxnOffsetCommitRequest, version: int) -> PartitionCheck | None:
    if group is None:
        if request.generation_id >= 0:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id}")
        return None
    try:
        return group.check_offset_commit(
            request.member_id, request.group_instance_id, request.generation_id, transactional=True, version=version
        )
    except Refusal as refusal:
        if refusal.error == ErrorCode.STALE_MEMBER_EPOCH:
            # Producers do not know member epochs.
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, str(refusal)) from None
        raise


def _records(
    state: GroupState,
    group_id: str,
    commits: Sequence[Commit],
    check: PartitionCheck | None,
    now_ms: int,
    expire_ms: int = -1,
) -> list[CoordinatorRecord]:
    records = []
    for topic, topic_id, partition, answer in commits:
        metadata = partition.committed_metadata or ""
        if metadata and _java_length(metadata) > state.config.integer("offset.metadata.max.bytes"):
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        if check is not None:
            check(topic, topic_id, partition.partition_index)
        records.append(
            CoordinatorRecord(
                OffsetCommitKey(group=group_id, topic=topic, partition=partition.partition_index),
                OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic_id,
                ),
                _VALUE_VERSION,
            )
        )
    return records


def _java_length(text: str) -> int:
    """Kafka compares the number of UTF-16 units with a limit in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
