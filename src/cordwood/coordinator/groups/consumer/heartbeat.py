"""ConsumerGroupHeartbeat: the whole exchange between a member and its coordinator.

A member joins with epoch 0 and leaves with -1, or with -2 temporarily if it is static. In between it reports changes of
its subscription and owned partitions, and receives changes of its assignment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cordwood.coordinator.groups.group import GroupType
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.runtime.randomness import new_uuid
from cordwood.shard.decision import Answer, Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from cordwood.wire.primitives import uuid_text

from . import records
from .consumer_group import ConsumerGroup
from .fencing import fence
from .group_epoch import follow_subscription
from .member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, Member, MemberState
from .membership import check_epoch, check_released, check_room, known_static_member, static_member_in_place_of
from .migration import upgraded
from .reconciliation import reconcile
from .target import current_or_new_target, offered_assignors
from .timeouts import begin_session, follow_rebalance

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig
    from cordwood.coordinator.groups.state import GroupState

# From this version on members generate their own ids (KIP-1082).
_VERSION_WITH_MEMBER_IDS = 1
_NOT_SAID = -1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, config: BrokerConfig) -> None:
    """Rejects requests that are invalid regardless of the member."""
    epoch = request.member_epoch
    if version >= _VERSION_WITH_MEMBER_IDS or epoch > 0 or epoch == -1:
        _check_not_blank(request.member_id, "MemberId")
    _check_not_blank(request.group_id, "GroupId")
    _check_not_blank(request.instance_id, "InstanceId")
    _check_not_blank(request.rack_id, "RackId")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == _NOT_SAID:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVING_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None:
        offered = offered_assignors(config)
        if request.server_assignor not in offered:
            raise Refusal(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
                f"{', '.join(offered)}.",
            )


def heartbeat(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> Decision[ConsumerGroupHeartbeatResponse]:
    interval_ms = quiet_beat(state, request, client_id, client_host)
    if interval_ms is not None:
        return Decision(
            ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
            )
        )
    if request.member_epoch < JOINING_EPOCH:
        return _leave(state, request)
    return _join_or_go_on(state, request, client_id, client_host)


def quiet_beat(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> int | None:
    """Fast path for most heartbeats: if nothing changes and there is nothing to report, renews the session and returns
    the next interval; otherwise returns None."""
    group = state.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(request.member_id)
    if member is None or not _has_no_news(group, member, request, client_id, client_host):
        return None
    timing = group.timing.get(state, group.group_id)
    begin_session(state, group.group_id, member.member_id, timing.session_timeout_ms)
    return timing.heartbeat_interval_ms


def _has_no_news(
    group: ConsumerGroup,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    client_id: str,
    client_host: str,
) -> bool:
    epoch = member.epoch
    return (
        request.member_epoch == epoch
        and epoch == group.assignment_epoch
        and epoch == group.epoch
        and member.state is MemberState.STABLE
        and epoch >= group.metadata_checked_in
        and request.rebalance_timeout_ms == _NOT_SAID
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and request.rack_id is None
        and member.classic is None
        and member.client_id == client_id
        and member.client_host == client_host
        and not group.subscriptions.regexes
    )


# Joining, and reporting changes


def _join_or_go_on(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> Decision[ConsumerGroupHeartbeatResponse]:
    written: list[CoordinatorRecord] = []
    joins = request.member_epoch == JOINING_EPOCH
    group, answers = _group(state, request, written, joins=joins)
    check_room(state, group, request.member_id)
    before = _member(state, group, request, written)
    member = _updated(before, request, client_id, client_host)
    subscription = follow_subscription(state, group, before, member, written)
    target = current_or_new_target(state, group, before, member, subscription, written)
    reconciled = reconcile(
        group,
        member,
        target.epoch,
        target.partitions,
        request.topic_partitions,
        state.image.topics,
        subscription_changed=subscription.has_changed,
    )
    if reconciled is not member and reconciled != member:
        written.append(records.current_assignment_record(group.group_id, reconciled))
        follow_rebalance(state, group.group_id, reconciled)
    timing = group.timing.get(state, group.group_id)
    begin_session(state, group.group_id, reconciled.member_id, timing.session_timeout_ms)
    says_everything = (
        request.rebalance_timeout_ms != _NOT_SAID
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    tells_assignment = joins or says_everything or reconciled.assigned != before.assigned
    response = ConsumerGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=timing.heartbeat_interval_ms,
        assignment=_assignment(reconciled) if tells_assignment else None,
    )
    return Decision(response, written, answers)


def _group(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, written: list[CoordinatorRecord], *, joins: bool
) -> tuple[ConsumerGroup, list[Answer]]:
    """Returns the group, converted if necessary, with the pending requests of the classic group that it replaces."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, []
    if group is None:
        if not joins:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id), []
    if not joins or group.type is not GroupType.CLASSIC:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    created, answers = upgraded(state, group, request.member_id, written)
    for member in created.members.values():
        assert member.classic is not None
        begin_session(state, group_id, member.member_id, member.classic.session_timeout_ms)
    return created, answers


def _member(
    state: GroupState, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, written: list[CoordinatorRecord]
) -> Member:
    member_id = request.member_id or uuid_text(new_uuid(state.random))
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if not joins:
                return group.member(member_id)
            member = Member(member_id)
    elif joins:
        existing = group.static_member(request.instance_id)
        if existing is None:
            return group.members.get(member_id) or Member(member_id)
        if existing.classic is None:
            check_released(existing, member_id)
        return static_member_in_place_of(state, group, existing, member_id, written)
    else:
        member = known_static_member(group, member_id, request.instance_id)
    check_epoch(member, request.member_epoch, request.topic_partitions)
    return member


def _updated(member: Member, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str) -> Member:
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _NOT_SAID else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def _assignment(member: Member) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(member.assigned.items())
        ]
    )


# Leaving


def _leave(state: GroupState, request: ConsumerGroupHeartbeatRequest) -> Decision[ConsumerGroupHeartbeatResponse]:
    group = state.groups.get(request.group_id)
    if group is None:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        return fence(state, group, [group.member(request.member_id)], response)
    member = known_static_member(group, request.member_id, request.instance_id)
    if request.member_epoch != LEAVING_STATIC_EPOCH:
        return fence(state, group, [member], response)
    # Its session continues: until it expires, the member may return to its partitions.
    gone = replace(
        member,
        epoch=LEAVING_STATIC_EPOCH,
        pending_revocation={},
        assigned={topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()},
    )
    return Decision(response, [records.current_assignment_record(group.group_id, gone)])


def _check_not_blank(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
