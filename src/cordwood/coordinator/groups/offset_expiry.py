"""Expires offsets: those not committed for long, and those of deleted topics.

The group decides which offsets may expire (KIP-211). A group without members and offsets is removed too.
"""

from __future__ import annotations

import logging
from functools import partial

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import Topic
from cordwood.shard.decision import Decision
from cordwood.wire.primitives import ZERO_UUID

from .group import Group
from .offsets import CommittedOffset, tombstone
from .state import GroupState

_log = logging.getLogger(__name__)

_EXPIRY = "expiry of offsets"
# Together they form one batch, which must fit into the log.
_TOMBSTONES_AT_ONCE = 1000
_MS_PER_MINUTE = 60_000


def schedule_expiry(state: GroupState) -> None:
    state.timers.after(_EXPIRY, state.config.integer("offsets.retention.check.interval.ms"), expire_offsets)


def expire_offsets(state: GroupState) -> Decision[None]:
    schedule_expiry(state)
    records: list[CoordinatorRecord] = []
    for group in state.groups.values():
        records += _expired(state, group, _TOMBSTONES_AT_ONCE - len(records))
        if len(records) >= _TOMBSTONES_AT_ONCE:
            # Continue after other work had a turn.
            state.timers.after(_EXPIRY, 0, expire_offsets)
            break
    if records:
        _log.info("Expired %d committed offsets and groups (offsets.retention.minutes)", len(records))
    return Decision(None, records)


def _expired(state: GroupState, group: Group, most: int) -> list[CoordinatorRecord]:
    """Returns tombstones for a group's expired offsets, and for the group itself if nothing is left."""
    group_id = group.group_id
    now_ms = state.clock.now_ms()
    retention_ms = state.config.integer("offsets.retention.minutes") * _MS_PER_MINUTE
    records: list[CoordinatorRecord] = []
    is_left = state.offsets.has_open_transaction(group_id)
    committed = state.offsets.of_group(group_id)
    since_ms = group.offsets_expire_from_ms if committed else None
    for topic, partitions in committed.items():
        if group.is_subscribed_to(topic):
            is_left = True
            continue
        for partition, offset in partitions.items():
            goes = _has_expired(offset, since_ms, now_ms, retention_ms)
            if goes and len(records) < most and not state.offsets.is_pending(group_id, topic, partition):
                records.append(tombstone(group_id, topic, partition))
            else:
                is_left = True
    if not is_left and group.is_empty:
        records += group.tombstones()
    return records


def _has_expired(offset: CommittedOffset, since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    if since_ms is not None and since_ms > now_ms:
        # Nothing expires while the group is in this state.
        return False
    if offset.expire_ms != -1:
        return now_ms >= offset.expire_ms
    return now_ms - (offset.commit_ms if since_ms is None else since_ms) >= retention_ms


# Deleted topics


def topics_deleted(state: GroupState, delta: MetadataDelta) -> None:
    for topic in delta.topics.deleted.values():
        _delete_offsets_soon(state, topic)


def _delete_offsets_soon(state: GroupState, topic: Topic) -> None:
    state.timers.after(("offsets of a deleted topic", topic.id), 0, partial(_delete_offsets, topic))


def _delete_offsets(topic: Topic, state: GroupState) -> Decision[None]:
    records = [
        tombstone(group_id, topic.name, partition)
        for group_id in state.offsets.groups_with(topic.name)
        for partition, offset in state.offsets.of_topic(group_id, topic.name)
        # Not those of a new topic with the same name.
        if offset.topic_id in (topic.id, ZERO_UUID)
    ]
    if len(records) > _TOMBSTONES_AT_ONCE:
        del records[_TOMBSTONES_AT_ONCE:]
        _delete_offsets_soon(state, topic)
    return Decision(None, records)
