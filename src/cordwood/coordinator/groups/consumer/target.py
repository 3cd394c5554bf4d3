"""Target assignments: recomputed for all members at once when the group's epoch has increased."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from cordwood.coordinator.groups.assignors import ASSIGNORS, GroupSpec, MemberSubscription, UnknownTopic
from cordwood.coordinator.groups.assignors.java_order import in_member_order
from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.image import Topics
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from . import records
from .consumer_group import NO_TARGET, ConsumerGroup
from .group_epoch import Subscription
from .member import Member

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig
    from cordwood.coordinator.groups.state import GroupState

_log = logging.getLogger(__name__)

# Kafka's own assignors may also be given by class name.
_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


class Target(NamedTuple):
    """One member's target assignment, and its epoch."""

    epoch: int
    partitions: MemberPartitions


def offered_assignors(config: BrokerConfig) -> tuple[str, ...]:
    """The assignors that members may ask for; the first is the default."""
    names = (_CLASSES.get(name, name) for name in config.items("group.consumer.assignors"))
    return tuple(name for name in names if name in ASSIGNORS)


def current_or_new_target(
    state: GroupState,
    group: ConsumerGroup,
    before: Member,
    member: Member,
    subscription: Subscription,
    written: list[CoordinatorRecord],
) -> Target:
    """Returns the target of a member that changes from `before` to `member`; `subscription` describes the effect on the
    group. Records of all changed targets are added to `written`.

    Members that join in quick succession share an assignment: a new one is computed at most every
    `consumer.assignment.interval.ms` (KIP-1263).
    """
    epoch = subscription.epoch
    if group.assignment_epoch >= epoch or not _may_assign(state, group):
        return Target(group.assignment_epoch, group.target_of(member))
    members = {
        member_id: other
        for member_id, other in group.members.items()
        if member.instance_id is None or member_id != group.static_members.get(member.instance_id)
    }
    members[member.member_id] = member
    targets = {**group.target, member.member_id: _last_target(group, member)}
    name = _preferred_assignor(state, group, before, member)
    assignor = ASSIGNORS[name]
    is_homogeneous = subscription.subscriptions.is_homogeneous(subscription.member_count)
    spec = _group_spec(group, members, targets, state.image.topics, is_homogeneous=is_homogeneous)
    try:
        assigned = assignor(spec, _Partitions(state.image.topics))
    except UnknownTopic as error:
        message = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message) from error
    for member_id in members:
        partitions = assigned.get(member_id, NO_TARGET)
        if group.target.get(member_id) != partitions:
            written.append(records.target_record(group.group_id, member_id, partitions))
    written.append(records.target_epoch_record(group.group_id, epoch, state.clock.now_ms()))
    _log.info(
        "Group %s (consumer): rebalancing to epoch %d (members: %d, assignor: %s)",
        group.group_id,
        epoch,
        len(members),
        name,
    )
    return Target(epoch, assigned.get(member.member_id, NO_TARGET))


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor that most members ask for."""
    return _most_votes(group.server_assignors) or default


def _preferred_assignor(state: GroupState, group: ConsumerGroup, before: Member, member: Member) -> str:
    votes = dict(group.server_assignors)
    if before.server_assignor is not None and before.server_assignor in votes:
        votes[before.server_assignor] -= 1
    if member.server_assignor is not None:
        votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    offered = offered_assignors(state.config)
    preferred = _most_votes({name: count for name, count in votes.items() if count > 0 and name in offered})
    return preferred or offered[0]


def _most_votes(votes: dict[str, int]) -> str | None:
    """Ties go to the first in Java's order, as in Kafka."""
    most = max(votes.values(), default=0)
    return next((name for name in in_member_order(votes) if votes[name] == most), None)


def _may_assign(state: GroupState, group: ConsumerGroup) -> bool:
    interval_ms = group.timing.get(state, group.group_id).assignment_interval_ms
    # Don't wait if the clock was set back.
    return not 0 <= state.clock.now_ms() - group.assignment_timestamp_ms < interval_ms


def _last_target(group: ConsumerGroup, member: Member) -> MemberPartitions:
    """A static member takes over its predecessor's target."""
    predecessor = None if member.instance_id is None else group.static_members.get(member.instance_id)
    return group.target.get(predecessor or member.member_id, NO_TARGET)


def _group_spec(
    group: ConsumerGroup,
    members: dict[str, Member],
    targets: dict[str, MemberPartitions],
    topics: Topics,
    *,
    is_homogeneous: bool,
) -> GroupSpec:
    # Most members have the same subscription: resolve each one once.
    topic_ids: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}
    subscribed = {}
    for member_id, member in members.items():
        subscription = (member.topic_names, member.topic_regex)
        ids = topic_ids.get(subscription)
        if ids is None:
            ids = topic_ids[subscription] = _topic_ids(group, member, topics)
        subscribed[member_id] = MemberSubscription(
            member.rack_id, member.instance_id, ids, targets.get(member_id, NO_TARGET)
        )
    return GroupSpec(subscribed, is_homogeneous)


def _topic_ids(group: ConsumerGroup, member: Member, topics: Topics) -> frozenset[Uuid]:
    names = member.topic_names
    resolved = group.resolved.get(member.topic_regex) if member.topic_regex else None
    if resolved is not None:
        names = names | resolved.topics
    return frozenset(topic_id for name in names if (topic_id := topics.ids.get(name)) is not None)


class _Partitions:
    """The assignors' `TopicDescriber`."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def partition_count(self, topic_id: Uuid) -> int:
        topic = self._topics.by_id.get(topic_id)
        return -1 if topic is None else len(topic.partitions)
