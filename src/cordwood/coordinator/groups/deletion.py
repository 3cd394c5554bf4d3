"""Deletes offsets of a group, and whole groups."""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_groups import DeletableGroupResult
from cordwood.wire.messages.offset_delete import OffsetDeleteResponse, OffsetDeleteResponsePartition

from .offsets import tombstone
from .state import GroupState


def delete_offsets(
    state: GroupState,
    group_id: str,
    partitions: Sequence[tuple[str, OffsetDeleteResponsePartition]],
    response: OffsetDeleteResponse,
) -> Decision[OffsetDeleteResponse]:
    """Deletes offsets of topics without subscribers in the group. `partitions` exist; errors are filled in for those
    that cannot be deleted."""
    group = state.group(group_id)
    group.check_offset_delete()
    records = []
    for topic, answer in partitions:
        index = answer.partition_index
        if group.is_subscribed_to(topic):
            answer.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif state.offsets.get(group_id, topic, index) is not None or state.offsets.is_pending(group_id, topic, index):
            records.append(tombstone(group_id, topic, index))
    return Decision(response, records)


def delete_groups(state: GroupState, group_ids: Sequence[str]) -> Decision[list[DeletableGroupResult]]:
    """Deletes groups without members, with their offsets."""
    results = []
    records: list[CoordinatorRecord] = []
    for group_id in group_ids:
        try:
            group = state.group(group_id)
            group.check_delete()
        except Refusal as refusal:
            results.append(DeletableGroupResult(group_id=group_id, error_code=refusal.error))
            continue
        records += [tombstone(group_id, topic, partition) for topic, partition in state.offsets.partitions(group_id)]
        records += group.tombstones()
        results.append(DeletableGroupResult(group_id=group_id))
    return Decision(results, records)
