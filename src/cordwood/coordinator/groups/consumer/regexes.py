"""Resolves the regular expressions that members subscribe with.

A heartbeat only requests it. The expressions of the whole group are resolved together right after, at most every ten
seconds; a new expression waits until then.
"""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial

from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.groups.subscription_pattern import check_pattern, resolve_patterns
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.decision import Decision

from . import records
from .consumer_group import ConsumerGroup
from .member import Member
from .subscriptions import ResolvedRegex
from .topics import version_of

_log = logging.getLogger(__name__)

_MIN_REFRESH_INTERVAL_MS = 10_000


class RegexChange(Enum):
    NONE = 0
    # The version of unresolved expressions: nothing is assigned before they are resolved.
    UNRESOLVED = 1
    RESOLVED = 2


def follow_regex(
    state: GroupState, group: ConsumerGroup, before: Member, member: Member, written: list[CoordinatorRecord]
) -> RegexChange:
    """Stores the regular expression of a member that changes from `before` to `member`, and requests its resolution if
    that is due. Raises Refusal if it is invalid."""
    change = RegexChange.NONE
    is_new = False
    old, new = before.topic_regex, member.topic_regex
    if old != new:
        change = RegexChange.UNRESOLVED
        if old and group.subscriptions.regexes.get(old) == 1:
            written.append(records.regex_tombstone(group.group_id, old))
        if new:
            if new not in group.subscriptions.regexes:
                check_pattern(new)
                is_new = True
            elif new in group.resolved:
                change = RegexChange.RESOLVED
        elif old:
            change = RegexChange.RESOLVED
    if (is_new or group.subscriptions.regexes) and _is_refresh_due(state, group, before, member, is_new=is_new):
        key = ("consumer-regexes", group.group_id)
        if key not in state.timers:
            state.timers.after(key, 0, partial(_resolve, group.group_id))
    return change


def _is_refresh_due(state: GroupState, group: ConsumerGroup, before: Member, member: Member, *, is_new: bool) -> bool:
    last = next(iter(group.resolved.values()), None)
    now_ms = state.clock.now_ms()
    # Don't wait if the clock was set back.
    if last is not None and 0 <= now_ms - last.timestamp_ms <= _MIN_REFRESH_INTERVAL_MS:
        return False
    subscribed = group.subscriptions.copy()
    subscribed.remove(before)
    subscribed.add(member)
    if not subscribed.regexes:
        return False
    if is_new or last is None or len(subscribed.regexes) != len(group.resolved):
        return True
    return (
        last.version < state.subscribed_topics.version_with_new_topics
        or now_ms > last.timestamp_ms + state.config.integer("group.consumer.regex.refresh.interval.ms")
    )


def _resolve(group_id: str, state: GroupState) -> Decision[None]:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or not group.subscriptions.regexes:
        return Decision(None)
    image = state.image
    names = [topic.name for topic in image.topics]
    now_ms = state.clock.now_ms()
    written: list[CoordinatorRecord] = []
    subscriptions = group.subscriptions.copy()
    has_changed = False
    for regex, topics in resolve_patterns(group.subscriptions.regexes, names).items():
        before = group.resolved.get(regex, ResolvedRegex())
        resolved = ResolvedRegex(topics, version_of(image), now_ms)
        if before.topics != topics:
            has_changed = True
            subscriptions.remove_resolved(before)
            subscriptions.add_resolved(resolved)
        written.append(records.regex_record(group_id, regex, resolved))
    metadata_hash = state.subscribed_topics.hash_of(subscriptions, image)
    if has_changed or metadata_hash != group.metadata_hash:
        epoch = group.epoch + 1
        written.append(records.group_record(group_id, epoch, metadata_hash))
        group.metadata_checked_in = epoch
        _log.info("Group %s moves to epoch %d: its regular expressions match other topics", group_id, epoch)
    return Decision(None, written)
