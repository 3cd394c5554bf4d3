"""Applies the records of consumer groups to the state, while loading and afterwards.

A compacted log may lack records: a member may be missing, or the target of a tombstone. Replay tolerates that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cordwood.coordinator.groups.group import GroupType
from cordwood.coordinator.groups.state import GroupState, Replay
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage
from cordwood.wire.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from cordwood.wire.messages.group_records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from cordwood.wire.messages.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from cordwood.wire.messages.group_records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from cordwood.wire.messages.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from cordwood.wire.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from cordwood.wire.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from cordwood.wire.schema import CoordinatorKey

from .consumer_group import NOT_CHECKED, ConsumerGroup
from .member import LEAVING_EPOCH, NO_PARTITIONS, Member
from .subscriptions import ResolvedRegex
from .timeouts import begin_all, end_timers
from .topics import version_of

_log = logging.getLogger(__name__)


def groups_loaded(state: GroupState) -> None:
    # Topics may have been created since their regular expressions were resolved.
    state.subscribed_topics.version_with_new_topics = version_of(state.image)
    begin_all(state)


def metadata_changed(state: GroupState, delta: MetadataDelta, image: MetadataImage) -> None:
    """Groups that subscribe to a changed topic check it with their next heartbeat."""
    for group_id in state.subscribed_topics.metadata_changed(delta, image):
        group = state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.metadata_checked_in = NOT_CHECKED


def _group(state: GroupState, group_id: str, *, create: bool) -> ConsumerGroup | None:
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not create:
        return None
    if group is not None and not (group.type is GroupType.CLASSIC and group.is_empty):
        # Should not happen, because its tombstone comes first.
        _log.warning("Group %s is a %s group with members, but has records of a consumer group", group_id, group.type)
    created = state.groups[group_id] = ConsumerGroup(group_id)
    return created


def _replay_group(
    state: GroupState, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None, _offset: int, _id: int
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        return
    if group.members:
        _log.warning("Group %s was deleted with %d members in it", key.group_id, len(group.members))
    _follow_subscriptions(state, group, list(group.subscriptions), gone=True)
    del state.groups[key.group_id]


def _replay_partition_metadata(
    state: GroupState,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is not None:
        group.has_partition_metadata = value is not None


def _replay_member(
    state: GroupState,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    before = group.members.get(key.member_id)
    if value is None:
        if before is not None:
            group.remove_member(key.member_id)
            end_timers(state, key.group_id, key.member_id)
            _follow_subscriptions(state, group, before.topic_names)
        return
    member = (before or Member(key.member_id)).with_metadata(value)
    group.put_member(member)
    if before is None or before.topic_names != member.topic_names:
        changed = member.topic_names if before is None else before.topic_names ^ member.topic_names
        _follow_subscriptions(state, group, changed)


def _replay_current_assignment(
    state: GroupState,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    before = group.members.get(key.member_id)
    if value is not None:
        group.put_member((before or Member(key.member_id)).with_assignment(value))
    elif before is not None:
        group.put_member(
            replace(
                before,
                epoch=LEAVING_EPOCH,
                previous_epoch=LEAVING_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
            )
        )


def _replay_target(
    state: GroupState,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def _replay_target_epoch(
    state: GroupState,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    group.assignment_epoch = -1 if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _replay_regex(
    state: GroupState,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
    _offset: int,
    _id: int,
) -> None:
    group = _group(state, key.group_id, create=value is not None)
    if group is None:
        return
    before = group.resolved.get(key.regular_expression, ResolvedRegex())
    resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.put_resolved(key.regular_expression, resolved)
    _follow_subscriptions(state, group, before.topics ^ (frozenset() if resolved is None else resolved.topics))


def _follow_subscriptions(
    state: GroupState, group: ConsumerGroup, topics: Iterable[str], *, gone: bool = False
) -> None:
    """Subscribes the group to changes of these topics, or unsubscribes it."""
    for topic in topics:
        if not gone and topic in group.subscriptions:
            state.subscribed_topics.subscribe(topic, group.group_id)
        else:
            state.subscribed_topics.unsubscribe(topic, group.group_id)


REPLAY: Mapping[type[CoordinatorKey], Replay] = {
    ConsumerGroupMetadataKey: _replay_group,
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current_assignment,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
