"""Members of a consumer group that speak the classic protocol, while the group migrates.

Their JoinGroup acts as a heartbeat: it carries their subscription and owned partitions. It never waits, and no member
leads: SyncGroup returns the assignment, and Heartbeat tells the member when to rejoin.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from cordwood.coordinator.groups.classic.join import Joining
from cordwood.coordinator.groups.classic.member import refused_join
from cordwood.coordinator.groups.classic.records import group_record
from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.runtime.randomness import new_uuid
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.group_records.consumer_group_member_metadata import ClassicMemberMetadata, ClassicProtocol
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from cordwood.wire.primitives import uuid_text

from . import records
from .consumer_group import NO_TARGET, PROTOCOL_TYPE, ConsumerGroup
from .consumer_protocol import owned_partitions, read_subscription, write_assignment
from .fencing import fence
from .group_epoch import follow_subscription
from .member import Member, MemberState
from .membership import check_room, known_static_member, static_member_in_place_of
from .migration import begin_when_replayed, can_downgrade_by_replacing, classic_group, migration_policy
from .reconciliation import reconcile
from .target import Target, current_or_new_target
from .timeouts import begin_session, end_join, end_sync, expect_join, expect_sync

_log = logging.getLogger(__name__)

# From this version on clients understand MEMBER_ID_REQUIRED (KIP-394).
_MEMBER_ID_REQUIRED_SINCE = 4


def join(state: GroupState, group: ConsumerGroup, joining: Joining) -> Decision[JoinGroupResponse]:
    request = joining.request
    group_id, instance_id = group.group_id, request.group_instance_id
    if migration_policy(state.config) == "disabled":
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the migration of {group_id} is disabled")
    member_id = request.member_id or uuid_text(new_uuid(state.random))
    check_room(state, group, member_id)
    if not group.supports_protocols(request.protocol_type, (name for name, _ in joining.protocols)):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the protocols of {member_id} are not supported")
    if not request.member_id and instance_id is None and joining.version >= _MEMBER_ID_REQUIRED_SINCE:
        return Decision(refused_join(ErrorCode.MEMBER_ID_REQUIRED, joining.version, member_id))
    written: list[CoordinatorRecord] = []
    subscription = _subscription(joining)
    before = _member(state, group, joining, member_id, subscription, written)
    member = _updated(before, joining, subscription)
    followed = follow_subscription(state, group, before, member, written, waits_for_regex=False)
    replaced = group.static_member(instance_id)
    turns = replaced is not None and can_downgrade_by_replacing(state, group, replaced)
    if turns:
        target = Target(group.assignment_epoch, group.target_of(member))
    else:
        target = current_or_new_target(state, group, before, member, followed, written)
    if not turns or group.assignment_epoch >= followed.epoch:
        reconciled = reconcile(
            group,
            member,
            target.epoch,
            target.partitions,
            owned_partitions(subscription, state.image.topics),
            state.image.topics,
            subscription_changed=followed.has_changed,
        )
        if reconciled != member:
            member = reconciled
            written.append(records.current_assignment_record(group_id, member))
    end_join(state, group_id, member.member_id)
    if turns:
        assert replaced is not None
        written += _as_classic_group(state, group, replaced, member, rebalances=group.assignment_epoch < followed.epoch)
    else:
        begin_session(state, group_id, member.member_id, request.session_timeout_ms)
        expect_sync(state, group_id, member.member_id, joining.rebalance_timeout_ms)
    response = JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joining.protocols[0][0],
    )
    return Decision(response, written)


def sync(state: GroupState, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
    member, classic = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"{member.member_id} joined with {PROTOCOL_TYPE}, {protocol.name}",
        )
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        # After it has revoked its partitions, its heartbeat tells it to rejoin.
        expect_join(state, group.group_id, member)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, f"{member.member_id} is to join again")
    end_sync(state, group.group_id, member.member_id)
    begin_session(state, group.group_id, member.member_id, classic.session_timeout_ms)
    assigned = {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()}
    return Decision(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, state.image.topics, protocol.metadata),
        )
    )


def heartbeat(state: GroupState, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    member, classic = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    begin_session(state, group.group_id, member.member_id, classic.session_timeout_ms)
    has_to_join = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )
    if not has_to_join:
        return Decision(HeartbeatResponse())
    expect_join(state, group.group_id, member)
    return Decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def leave(state: GroupState, group: ConsumerGroup, leaving: list[MemberIdentity]) -> Decision[LeaveGroupResponse]:
    """Removes members of either protocol: an administrator need not know which one they speak."""
    members: dict[str, Member] = {}
    responses = []
    for identity in leaving:
        response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            member = _leaving_member(group, identity)
        except Refusal as refusal:
            response.error_code = refusal.error
        else:
            members[member.member_id] = member
            _log.info(
                "Member %s leaves group %s: %s",
                member.member_id,
                group.group_id,
                identity.reason or "it does not say why",
            )
        responses.append(response)
    return fence(state, group, list(members.values()), LeaveGroupResponse(members=responses))


# Identifying the member


def _member(
    state: GroupState,
    group: ConsumerGroup,
    joining: Joining,
    member_id: str,
    subscription: ConsumerProtocolSubscription,
    written: list[CoordinatorRecord],
) -> Member:
    instance_id = joining.request.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            _check_new(member_id, subscription)
            return Member(member_id)
        return member
    if joining.request.member_id:
        return known_static_member(group, member_id, instance_id)
    existing = group.static_member(instance_id)
    if existing is None:
        return Member(member_id)
    return static_member_in_place_of(state, group, existing, member_id, written)


def _check_new(member_id: str, subscription: ConsumerProtocolSubscription) -> None:
    """Rejects a new member that claims partitions of an earlier generation: others may have owned them since. It must
    revoke them, and must not resume even if it is assigned the same ones. (Kafka accepts the claim.)"""
    if subscription.owned_partitions and subscription.generation_id >= 0:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of the group any more.")


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[Member, ClassicMemberMetadata]:
    member = group.member(member_id) if instance_id is None else known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    static = group.static_member(instance_id)
    if static is not None and not identity.member_id:
        # Administrators identify static members by instance id only.
        return static
    return known_static_member(group, identity.member_id, instance_id)


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION, f"{member.member_id} is at epoch {member.epoch}, not at {generation}"
        )


# Decoding its metadata


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    """Returns the subscription, which is the same in all of the member's protocols."""
    try:
        return read_subscription(joining.protocols[0][1])
    except DecodeError as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the subscription cannot be read: {error}") from error


def _updated(member: Member, joining: Joining, subscription: ConsumerProtocolSubscription) -> Member:
    instance_id = joining.request.group_instance_id
    return replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=joining.client_id,
        client_host=joining.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=joining.request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in joining.protocols],
        ),
    )


# The last member with the consumer protocol was static, and returns with the classic one


def _as_classic_group(
    state: GroupState, group: ConsumerGroup, replaced: Member, joined: Member, *, rebalances: bool
) -> list[CoordinatorRecord]:
    """The new group's records replace those of the group it succeeds, and must be undone in the same way."""
    ids = [joined.member_id if member_id == replaced.member_id else member_id for member_id in group.members]
    others = [member for member_id, member in group.members.items() if member_id != replaced.member_id]
    targets = {member.member_id: group.target.get(member.member_id, NO_TARGET) for member in others}
    targets[joined.member_id] = group.target.get(replaced.member_id, NO_TARGET)
    created = classic_group(state, group, [*others, joined], targets)
    reason = "the last member with the consumer protocol has come back with another subscription"
    begin_when_replayed(state, group.group_id, (), reason if rebalances else None)
    return [*group.tombstones_of(ids), group_record(created)]
