"""Reads committed offsets."""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from cordwood.wire.primitives import ZERO_UUID, Uuid

from .offsets import CommittedOffset, OffsetsByTopic
from .state import GroupState

_NO_OFFSET = -1


def fetch_offsets(
    state: GroupState, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> Decision[OffsetFetchResponseGroup]:
    """Returns offsets of the requested topics (with name and id if they exist), or of all topics if none are given. A
    missing group has no offsets."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    if group is not None:
        group.check_offset_fetch(request.member_id, request.member_epoch)
    committed = state.offsets.of_group(group_id)
    wanted = (
        _all_of(state, committed)
        if request.topics is None
        else [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
    )
    topics = []
    for name, topic_id, indexes in wanted:
        partitions = committed.get(name, {})
        topics.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=[
                    _unstable(index)
                    if require_stable and state.offsets.is_pending(group_id, name, index)
                    else _partition(index, partitions.get(index), topic_id)
                    for index in indexes
                ],
            )
        )
    return Decision(OffsetFetchResponseGroup(group_id=group_id, topics=topics))


def _all_of(state: GroupState, committed: OffsetsByTopic) -> list[tuple[str, Uuid, Sequence[int]]]:
    wanted: list[tuple[str, Uuid, Sequence[int]]] = []
    for name, partitions in committed.items():
        topic_id = state.image.topics.ids.get(name, ZERO_UUID)
        indexes = [index for index, offset in partitions.items() if _is_of(offset, topic_id)]
        if indexes:
            wanted.append((name, topic_id, indexes))
    return wanted


def _is_of(offset: CommittedOffset, topic_id: Uuid) -> bool:
    """False for an offset of a deleted topic that had the same name."""
    return offset.topic_id == topic_id or ZERO_UUID in (offset.topic_id, topic_id)


def _partition(index: int, offset: CommittedOffset | None, topic_id: Uuid) -> OffsetFetchResponsePartitions:
    if offset is None or not _is_of(offset, topic_id):
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=_NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=_NO_OFFSET,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
