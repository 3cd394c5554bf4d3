"""Migrates a classic group to a consumer group while its members continue, and back.

The first member that joins with the consumer protocol upgrades the group; when the last one has left and classic
members remain, it is downgraded. `group.consumer.migration.policy` permits either direction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.effects import Effects
from cordwood.coordinator.groups.classic.member import ClassicMember, Protocols, refused_join
from cordwood.coordinator.groups.classic.rebalance import rebalance_or_complete_join
from cordwood.coordinator.groups.classic.records import group_record
from cordwood.coordinator.groups.classic.sessions import begin_session, remove_member
from cordwood.coordinator.groups.group import Group
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.image import Topics
from cordwood.shard.decision import Answer, Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.group_records.consumer_group_member_metadata import ClassicMemberMetadata, ClassicProtocol
from cordwood.wire.messages.sync_group import SyncGroupResponse
from cordwood.wire.primitives import Uuid

from . import records
from .consumer_group import PROTOCOL_TYPE, ConsumerGroup
from .consumer_protocol import (
    owned_partitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from .member import Member

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig
    from cordwood.coordinator.groups.state import GroupState

_log = logging.getLogger(__name__)

_UPGRADING = ("upgrade", "bidirectional")
_DOWNGRADING = ("downgrade", "bidirectional")
# Topic id → partition → the epoch in which a member was assigned it.
_Assigned = dict[Uuid, dict[int, int]]


def migration_policy(config: BrokerConfig) -> str:
    return config.text("group.consumer.migration.policy").lower()


# Upgrade


def upgraded(
    state: GroupState, group: Group, joining_id: str, written: list[CoordinatorRecord]
) -> tuple[ConsumerGroup, list[Answer]]:
    """Returns the consumer group that replaces a classic one for a joining member, and the responses to requests that
    wait for the classic group's rebalance. Raises Refusal if the group cannot be upgraded.

    The joining member is new in the group even if the classic group knows it: such a member has left (see `downgrade`),
    and its partitions are free until they are reassigned.
    """
    assert isinstance(group, ClassicGroup)
    if group.is_empty:
        written += group.tombstones()
        return ConsumerGroup(group.group_id), []
    _check_upgrade(state, group)
    try:
        members = _consumer_members(group, joining_id, state.image.topics)
    except DecodeError as error:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed") from error
    created = ConsumerGroup(group.group_id)
    created.epoch = created.assignment_epoch = group.generation
    for member in members:
        created.put_member(member)
        created.target[member.member_id] = {
            topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()
        }
    created.metadata_hash = state.subscribed_topics.hash_of(created.subscriptions, state.image)
    written += group.tombstones()
    written += _group_records(created)
    _log.info("%s becomes a consumer group", group)
    return created, _told_to_join_again(group)


def _check_upgrade(state: GroupState, group: ClassicGroup) -> None:
    if migration_policy(state.config) not in _UPGRADING:
        raise _not_upgraded(group, "online upgrade is disabled")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > state.config.integer("group.consumer.max.size"):
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")


def _not_upgraded(group: ClassicGroup, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


def _consumer_members(group: ClassicGroup, joining_id: str, topics: Topics) -> list[Member]:
    """Returns the members as stable, with their current partitions; the new member makes them rejoin."""
    members = [member for member_id, member in group.members.items() if member_id != joining_id]
    subscriptions = [_subscription(group, member) for member in members]
    assigned = [_assigned(group, member, topics) for member in members]
    _add_what_is_not_given_up(assigned, subscriptions, group.generation, topics)
    return [
        _consumer_member(group, member, subscription, has)
        for member, subscription, has in zip(members, subscriptions, assigned, strict=True)
    ]


def _consumer_member(
    group: ClassicGroup, member: ClassicMember, subscription: ConsumerProtocolSubscription, assigned: _Assigned
) -> Member:
    return Member(
        member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols],
        ),
    )


def _subscription(group: ClassicGroup, member: ClassicMember) -> ConsumerProtocolSubscription:
    said = member.known_metadata(group.protocol_name)
    return read_subscription(member.protocols[0][1] if said is None else said)


def _assigned(group: ClassicGroup, member: ClassicMember, topics: Topics) -> _Assigned:
    if not member.assignment:
        # It has joined and never synced.
        return {}
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _not_upgraded(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    return {
        topic_id: dict.fromkeys(assigned.partitions, group.generation)
        for assigned in assignment.assigned_partitions
        if (topic_id := topics.ids.get(assigned.topic)) is not None
    }


def _add_what_is_not_given_up(
    assigned: list[_Assigned],
    subscriptions: list[ConsumerProtocolSubscription],
    generation: int,
    topics: Topics,
) -> None:
    """In a cooperative group, a partition that moves is unassigned until its owner has rejoined without it. The owner
    keeps it: it may not even know yet that it has to revoke it. (Kafka gives it to others at once.)"""
    taken = {(topic_id, number) for has in assigned for topic_id, numbers in has.items() for number in numbers}
    claims = zip(subscriptions, assigned, strict=True)
    # If two members claim the same partition, the later generation wins.
    for subscription, has in sorted(claims, key=lambda claim: claim[0].generation_id, reverse=True):
        for owned in owned_partitions(subscription, topics):
            kept = [number for number in owned.partitions if (owned.topic_id, number) not in taken]
            if kept:
                has.setdefault(owned.topic_id, {}).update(dict.fromkeys(kept, generation))
                taken.update((owned.topic_id, number) for number in kept)


def _group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    group_id = group.group_id
    members = group.members.values()
    return [
        *(records.member_record(group_id, member) for member in members),
        records.group_record(group_id, group.epoch, group.metadata_hash),
        *(records.target_record(group_id, member_id, target) for member_id, target in group.target.items()),
        records.target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(records.current_assignment_record(group_id, member) for member in members),
    ]


def _told_to_join_again(group: ClassicGroup) -> list[Answer]:
    answers = []
    for member in group.members.values():
        if member.awaiting_join is not None:
            joined = refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.join_version, member.member_id)
            answers.append(Answer(member.awaiting_join, joined))
        if member.awaiting_sync is not None:
            synced = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            answers.append(Answer(member.awaiting_sync, synced))
    return answers


# Downgrade


def can_downgrade(state: GroupState, group: ConsumerGroup, leaving: Sequence[Member]) -> bool:
    """True if the group would consist of classic members without these members."""
    left = len(group.members) - len(leaving)
    return (
        left > 0
        and group.all_are_classic_without(leaving)
        and migration_policy(state.config) in _DOWNGRADING
        and left <= state.config.integer("group.max.size")
    )


def can_downgrade_by_replacing(state: GroupState, group: ConsumerGroup, replaced: Member) -> bool:
    """True if the group becomes classic when a classic member replaces this one."""
    return (
        replaced.classic is None
        and group.classic_count == len(group.members) - 1
        and migration_policy(state.config) in _DOWNGRADING
        and len(group.members) <= state.config.integer("group.max.size")
    )


def downgrade(state: GroupState, group: ConsumerGroup, leaving: Sequence[Member]) -> list[CoordinatorRecord]:
    """Returns the records that turn it into a classic group without these members; it rebalances at once.

    A classic group in a rebalance is ahead of its log. The leaving members stay in the record so that a coordinator
    that loads it in this state rebalances too: they send no heartbeats, and their partitions are not forgotten.
    """
    gone = {member.member_id for member in leaving}
    members = [member for member_id, member in group.members.items() if member_id not in gone]
    # Their current partitions, not (as in Kafka) their targets: others must not get them if the group is upgraded again
    # before these members have rejoined.
    owned = {member.member_id: _owned(member) for member in members}
    classic = classic_group(state, group, members, owned)
    assert classic.protocol_name is not None
    session_timeout_ms = group.timing.get(state, group.group_id).session_timeout_ms
    for member in leaving:
        said = ((classic.protocol_name, write_subscription(member.topic_names)),)
        classic.add(_classic_member(member, session_timeout_ms, said))
    begin_when_replayed(state, group.group_id, gone, "the last member with the consumer protocol has left")
    return [*group.tombstones(), group_record(classic)]


def _owned(member: Member) -> MemberPartitions:
    topic_ids = member.assigned.keys() | member.pending_revocation.keys()
    return {
        topic_id: frozenset(member.assigned.get(topic_id, {})) | frozenset(member.pending_revocation.get(topic_id, {}))
        for topic_id in sorted(topic_ids)
    }


def classic_group(
    state: GroupState,
    group: ConsumerGroup,
    members: Sequence[Member],
    targets: dict[str, MemberPartitions],
) -> ClassicGroup:
    """Builds the group with these members and their assignments."""
    created = ClassicGroup(group.group_id, state.clock.now_ms())
    created.generation = group.epoch
    created.protocol_type = PROTOCOL_TYPE
    for member in members:
        assert member.classic is not None
        said = tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols)
        created.add(_classic_member(member, member.classic.session_timeout_ms, said))
    created.protocol_name = created.select_protocol()
    for classic_member in created.members.values():
        subscription = classic_member.metadata(created.protocol_name)
        target = targets[classic_member.member_id]
        classic_member.assignment = write_assignment(target, state.image.topics, subscription)
    return created


def _classic_member(member: Member, session_timeout_ms: int, protocols: Protocols) -> ClassicMember:
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
    )


def begin_when_replayed(state: GroupState, group_id: str, gone: Collection[str], rebalance_reason: str | None) -> None:
    """Sets up the parts of a classic group that are not in its record: sessions and, if needed, a rebalance."""
    state.timers.follow_ups.append((("downgraded", group_id), partial(_begin, group_id, gone, rebalance_reason)))


def _begin(group_id: str, gone: Collection[str], rebalance_reason: str | None, state: GroupState) -> Decision[None]:
    group = state.groups.get(group_id)
    effects = Effects()
    if isinstance(group, ClassicGroup):
        _log.info("%s is a classic group from now on", group)
        for member in list(group.members.values()):
            if member.member_id in gone:
                remove_member(state, group, member, effects)
            else:
                begin_session(state, group, member)
        if rebalance_reason is not None:
            # A failed write is retried once the rebalance is in progress.
            rebalance_or_complete_join(state, group, effects, rebalance_reason)
    return effects.decision(None)
