"""Removes members that leave or time out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.decision import Decision

from . import records
from .consumer_group import ConsumerGroup
from .member import Member
from .migration import can_downgrade, downgrade

_log = logging.getLogger(__name__)

T = TypeVar("T")


def fence(state: GroupState, group: ConsumerGroup, members: Sequence[Member], response: T) -> Decision[T]:
    """Removes the members; if only classic members remain, the group becomes a classic group."""
    if not members:
        return Decision(response)
    if can_downgrade(state, group, members):
        return Decision(response, downgrade(state, group, members))
    written: list[CoordinatorRecord] = []
    subscriptions = group.subscriptions.copy()
    for member in members:
        written += records.member_tombstones(group.group_id, member.member_id)
        subscriptions.remove(member)
    for regex in dict.fromkeys(member.topic_regex for member in members):
        if regex and regex not in subscriptions.regexes:
            written.append(records.regex_tombstone(group.group_id, regex))
            if regex in group.resolved:
                subscriptions.remove_resolved(group.resolved[regex])
    metadata_hash = state.subscribed_topics.hash_of(subscriptions, state.image)
    written.append(records.group_record(group.group_id, group.epoch + 1, metadata_hash))
    _log.info(
        "Group %s (consumer): members gone: %d, remaining: %d (epoch %d)",
        group.group_id,
        len(members),
        len(group.members) - len(members),
        group.epoch + 1,
    )
    return Decision(response, written)
