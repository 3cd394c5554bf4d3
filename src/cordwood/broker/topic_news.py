"""Logs changes of topics when the metadata is committed: creation, deletion, new partitions, leaders."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cordwood.metadata.image import NO_LEADER, PartitionRegistration
from cordwood.metadata.topics_delta import TopicsDelta

_log = logging.getLogger(__name__)

# Lines of one kind per change; if there are more, one line sums them up with some examples.
_LINES = 10
_EXAMPLES = 3


def log_topic_news(topics: TopicsDelta) -> None:
    if not _log.isEnabledFor(logging.INFO):
        return
    created, grown, leaders = [], [], []
    for topic_id, change in topics.changed.items():
        name = change.before.name
        if topic_id in topics.created:
            replicas = max((len(partition.replicas) for partition in change.partitions.values()), default=0)
            created.append(f"{name} (partitions: {len(change.partitions)}, replication factor: {replicas})")
            continue
        added = 0
        for partition_id, partition in change.partitions.items():
            before = change.before.partitions.get(partition_id)
            if before is None:
                added += 1
            elif before.leader != partition.leader:
                leaders.append(f"{name}-{partition_id}: {_leader_change(before, partition)}")
        if added:
            grown.append(f"{name} (from {len(change.before.partitions)} to {len(change.before.partitions) + added})")
    deleted = [f"{topic.name} (partitions: {len(topic.partitions)})" for topic in topics.deleted.values()]
    _log_each("Deleted topic", "topics", deleted)
    _log_each("Created topic", "topics", created)
    _log_each("Added partitions to", "topics", grown)
    _log_each("New leader of", "partitions", leaders)


def _leader_change(before: PartitionRegistration, after: PartitionRegistration) -> str:
    old, new = ("none" if leader == NO_LEADER else leader for leader in (before.leader, after.leader))
    return f"{new} (before: {old}, epoch: {after.leader_epoch}, in sync: {', '.join(map(str, after.isr)) or 'none'})"


def _log_each(what: str, kind: str, items: Sequence[str]) -> None:
    if len(items) <= _LINES:
        for item in items:
            _log.info("%s %s", what, item)
    else:
        examples = "; ".join(items[:_EXAMPLES])
        _log.info("%s %d %s: %s; …", what.removesuffix(" topic"), len(items), kind, examples)
