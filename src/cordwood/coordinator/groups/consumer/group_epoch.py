"""Increases a group's epoch when there is something new to assign."""

from __future__ import annotations

import logging
from typing import NamedTuple

from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.record import CoordinatorRecord

from . import records
from .consumer_group import ConsumerGroup
from .member import Member
from .regexes import RegexChange, follow_regex
from .subscriptions import Subscriptions

_log = logging.getLogger(__name__)


class Subscription(NamedTuple):
    """Effects of a member's subscription, and of the metadata, on the group."""

    # The group's epoch from now on.
    epoch: int
    # The topics of all members, and the number of members, including this one.
    subscriptions: Subscriptions
    member_count: int
    # True if the member's own subscription has changed.
    has_changed: bool


def follow_subscription(
    state: GroupState,
    group: ConsumerGroup,
    before: Member,
    member: Member,
    written: list[CoordinatorRecord],
    *,
    waits_for_regex: bool = True,
) -> Subscription:
    """Increases the group's epoch if its subscriptions, or the subscribed topics, have changed. For an unresolved
    regular expression that happens after it is resolved."""
    if member != before:
        written.append(records.member_record(group.group_id, member))
    names_changed = member.topic_names != before.topic_names
    regex = follow_regex(state, group, before, member, written)
    has_changed = names_changed or regex is not RegexChange.NONE
    is_new_epoch = (
        names_changed or regex is RegexChange.RESOLVED or (not waits_for_regex and regex is not RegexChange.NONE)
    )
    subscriptions = _changed(group, before, member) if has_changed else group.subscriptions
    epoch = group.epoch
    if is_new_epoch or epoch < group.metadata_checked_in:
        metadata_hash = state.subscribed_topics.hash_of(subscriptions, state.image)
        if is_new_epoch or metadata_hash != group.metadata_hash:
            epoch += 1
            written.append(records.group_record(group.group_id, epoch, metadata_hash))
            _log.info("Group %s moves to epoch %d", group.group_id, epoch)
        group.metadata_checked_in = epoch
        if group.has_partition_metadata:
            written.append(records.partition_metadata_tombstone(group.group_id))
    is_there = member.member_id in group.members or group.static_member(member.instance_id) is not None
    return Subscription(epoch, subscriptions, len(group.members) + (not is_there), has_changed)


def _changed(group: ConsumerGroup, before: Member, member: Member) -> Subscriptions:
    subscriptions = group.subscriptions.copy()
    subscriptions.remove(before)
    subscriptions.add(member)
    if before.topic_regex and before.topic_regex not in subscriptions.regexes:
        resolved = group.resolved.get(before.topic_regex)
        if resolved is not None:
            subscriptions.remove_resolved(resolved)
    return subscriptions
