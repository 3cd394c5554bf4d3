"""Moves a member from its current assignment to its target, one step per heartbeat.

The member first revokes what is not in its target, and stays in its epoch until it confirms. Then it gets the free
partitions and the target's epoch; partitions that others still own follow when they are revoked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain

from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.metadata.image import Topics
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from .consumer_group import ConsumerGroup
from .member import NO_PARTITIONS, Member, MemberState, OwnedTopic, PartitionEpochs, owns_any

_NO_EPOCH = -1
IsSubscribed = Callable[[Uuid], bool]


def reconcile(
    group: ConsumerGroup,
    member: Member,
    target_epoch: int,
    target: MemberPartitions,
    owned: Iterable[OwnedTopic] | None,
    topics: Topics,
    *,
    subscription_changed: bool,
) -> Member:
    """Returns the member after its next step; the same member if there is none. `owned` is the partitions that it
    claims, if it makes a claim."""
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    is_subscribed = _subscribed_topics(group, member, topics)
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return _without_unsubscribed(member, owned, is_subscribed)
        case MemberState.UNREVOKED_PARTITIONS if owns_any(owned, member.pending_revocation):
            return _without_unsubscribed(member, owned, is_subscribed) if subscription_changed else member
        case MemberState.UNKNOWN if owned is None or any(True for _ in owned):
            # A later release wrote this state; start from scratch.
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                "rejoin.",
            )
    return _next_step(group, member, target_epoch, target, owned, is_subscribed)


def _next_step(
    group: ConsumerGroup,
    member: Member,
    target_epoch: int,
    target: MemberPartitions,
    owned: Iterable[OwnedTopic] | None,
    is_subscribed: IsSubscribed,
) -> Member:
    kept: dict[Uuid, dict[int, int]] = {}
    given_up: dict[Uuid, dict[int, int]] = {}
    given: dict[Uuid, list[int]] = {}
    waits = False
    for topic_id in {**target, **member.assigned}:
        wanted = target.get(topic_id, frozenset()) if is_subscribed(topic_id) else frozenset()
        has = member.assigned.get(topic_id, {})
        keeps = {number: epoch for number, epoch in has.items() if number in wanted}
        if keeps:
            kept[topic_id] = keeps
        if len(keeps) < len(has):
            given_up[topic_id] = {number: epoch for number, epoch in has.items() if number not in wanted}
        if len(keeps) < len(wanted):
            # A partition that it is about to revoke itself may be assigned to it again.
            own = member.pending_revocation.get(topic_id, {})
            free = [
                number
                for number in wanted
                if number not in keeps and (number in own or group.owner_epoch(topic_id, number) == _NO_EPOCH)
            ]
            if free:
                given[topic_id] = free
            waits |= len(keeps) + len(free) < len(wanted)
    if given_up and owns_any(owned, given_up):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, given_up)
    for topic_id, numbers in given.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(numbers, target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.moved_to(target_epoch, state, kept, NO_PARTITIONS)


def _without_unsubscribed(member: Member, owned: Iterable[OwnedTopic] | None, is_subscribed: IsSubscribed) -> Member:
    """Drops topics that the member no longer subscribes to from its target, which does not reflect the new subscription
    yet."""
    dropped: PartitionEpochs = {
        topic_id: numbers for topic_id, numbers in member.assigned.items() if not is_subscribed(topic_id)
    }
    if not dropped:
        return member
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id not in dropped}
    pending: dict[Uuid, dict[int, int]] = {}
    for topic_id, numbers in chain(member.pending_revocation.items(), dropped.items()):
        pending.setdefault(topic_id, {}).update(numbers)
    if owns_any(owned, pending):
        return member.moved_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return replace(member, previous_epoch=member.epoch, assigned=kept)


def _subscribed_topics(group: ConsumerGroup, member: Member, topics: Topics) -> IsSubscribed:
    """An unresolved regular expression matches nothing."""
    resolved = group.resolved.get(member.topic_regex) if member.topic_regex else None

    def is_subscribed(topic_id: Uuid) -> bool:
        topic = topics.by_id.get(topic_id)
        return topic is not None and (
            topic.name in member.topic_names or (resolved is not None and topic.name in resolved.topics)
        )

    return is_subscribed
