"""JoinGroup: a client asks to join the group, or its next generation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from cordwood.wire.primitives import MAX_STRING_BYTES

from .classic_group import ClassicGroup
from .effects import Effects
from .member import ClassicMember, Protocols, refused_join
from .rebalance import complete_join_if_all_have, end_timers, joined, rebalance_or_complete_join
from .records import group_record, new_group_record
from .sessions import begin_session, expect_join, remove_member, remove_pending
from .states import ClassicState

_log = logging.getLogger(__name__)

# From this version on clients understand MEMBER_ID_REQUIRED (KIP-394).
_MEMBER_ID_REQUIRED_SINCE = 4
# How long a new member with an unanswered JoinGroup is kept: the coordinator cannot tell whether its client is still
# alive.
_NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
# From this version on a leader can be told to skip the assignment (KIP-814).
_SKIP_ASSIGNMENT_SINCE = 9
_UNKNOWN = ""


class Joining(NamedTuple):
    """A JoinGroup request and its sender."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    protocols: Protocols

    @property
    def rebalance_timeout_ms(self) -> int:
        """The session timeout in the first version, which has no rebalance timeout."""
        return self.request.rebalance_timeout_ms if self.version else self.request.session_timeout_ms

    def begin_wait(self, member: ClassicMember) -> Promise[JoinGroupResponse]:
        member.awaiting_join = promise = Promise[JoinGroupResponse]()
        member.join_version = self.version
        return promise

    def refused(self, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
        return refused_join(error, self.version, member_id)

    @property
    def reason(self) -> str:
        return self.request.reason or "it does not say why"


def join(
    state: GroupState, joining: Joining, replaced: Sequence[CoordinatorRecord] = ()
) -> Decision[JoinGroupResponse]:
    """`replaced` is an empty group of another kind, whose records are removed from the log."""
    request = joining.request
    group = state.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        return _join(state, group, joining, Effects())
    if request.member_id != _UNKNOWN:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {request.group_id} with members")
    return _found(state, joining, replaced)


def _found(state: GroupState, joining: Joining, replaced: Sequence[CoordinatorRecord]) -> Decision[JoinGroupResponse]:
    """Creates the group if needed; it stays even if no member joins in the end."""
    group_id = joining.request.group_id
    group = ClassicGroup(group_id, state.clock.now_ms())
    before = state.groups.get(group_id)

    def refused(_refusal: Refusal) -> None:
        end_timers(state, group)
        if before is None:
            del state.groups[group_id]
        else:
            state.groups[group_id] = before

    effects = Effects(refused)
    effects.records += [*replaced, new_group_record(group)]
    decision = _join(state, group, joining, effects)
    state.groups[group_id] = group
    return decision


def _join(state: GroupState, group: ClassicGroup, joining: Joining, effects: Effects) -> Decision[JoinGroupResponse]:
    request = joining.request
    member_id = request.member_id
    if not _has_room(group, member_id, state.config.integer("group.max.size")):
        return _turn_away(state, group, joining, effects)
    if not group.supports(request.protocol_type, joining.protocols):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"{group} is of type {group.protocol_type}; its members and this one have no protocol in common",
        )
    if member_id == _UNKNOWN:
        return _join_new(state, group, joining, effects)
    if member_id in group.pending_joins and request.group_instance_id is None:
        remove_pending(state, group, member_id)
        return _add(state, group, joining, member_id, effects)
    member = group.checked_member(member_id, request.group_instance_id)
    return _join_again(state, group, joining, member, effects)


# Size limit


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # First come, first served. There may be more members than allowed if the limit was lowered.
        return (member is not None and member.awaiting_join is not None) or group.waiting_to_join < max_size
    return member is not None or len(group.members) < max_size


def _turn_away(
    state: GroupState, group: ClassicGroup, joining: Joining, effects: Effects
) -> Decision[JoinGroupResponse]:
    member_id = joining.request.member_id
    member = group.members.get(member_id)
    if member is not None:
        remove_member(state, group, member, effects)
    else:
        remove_pending(state, group, member_id)
    complete_join_if_all_have(state, group, effects)
    return effects.decision(joining.refused(ErrorCode.GROUP_MAX_SIZE_REACHED))


# New members


def _join_new(
    state: GroupState, group: ClassicGroup, joining: Joining, effects: Effects
) -> Decision[JoinGroupResponse]:
    instance_id = joining.request.group_instance_id
    member_id = _new_member_id(state.random, joining.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        old = group.members[group.static_members[instance_id]]
        return _take_place(state, group, joining, old, member_id, effects)
    if instance_id is None and joining.version >= _MEMBER_ID_REQUIRED_SINCE:
        expect_join(state, group, member_id, joining.request.session_timeout_ms)
        return effects.decision(joining.refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    return _add(state, group, joining, member_id, effects)


def _new_member_id(random: Random, name: str) -> str:
    """Builds the id from the client's id, or a static member's name, and a uuid in Java's format. Truncates very long
    names, so that the id fits into a response."""
    digits = new_uuid(random).hex()
    uuid = f"-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return name.encode()[: MAX_STRING_BYTES - len(uuid)].decode(errors="ignore") + uuid


def _add(
    state: GroupState, group: ClassicGroup, joining: Joining, member_id: str, effects: Effects
) -> Decision[JoinGroupResponse]:
    member = _member(joining, member_id)
    member.is_new = True
    promise = joining.begin_wait(member)
    group.has_grown = True
    if not group.members:
        group.protocol_type = joining.request.protocol_type
    group.add(member)
    begin_session(state, group, member, _NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete_join(state, group, effects, f"{member} is new: {joining.reason}")
    return effects.decision(promise)


def _member(joining: Joining, member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id,
        joining.request.group_instance_id,
        joining.client_id,
        joining.client_host,
        joining.rebalance_timeout_ms,
        joining.request.session_timeout_ms,
        joining.protocols,
    )


# Members that rejoin


def _join_again(
    state: GroupState, group: ClassicGroup, joining: Joining, member: ClassicMember, effects: Effects
) -> Decision[JoinGroupResponse]:
    is_leader = member.member_id == group.leader_id
    is_as_before = member.protocols == joining.protocols
    # The response may have been lost. The leader of a stable group forces a rebalance by rejoining: something besides
    # the members has changed, such as a topic's partitions.
    is_told_again = group.state is ClassicState.COMPLETING_REBALANCE or (
        group.state is ClassicState.STABLE and not is_leader
    )
    if is_told_again and is_as_before:
        return effects.decision(joined(group, member))
    promise = _wait_to_join(group, joining, member, effects)
    rebalance_or_complete_join(state, group, effects, f"{member} joins again: {joining.reason}")
    return effects.decision(promise)


def _wait_to_join(
    group: ClassicGroup, joining: Joining, member: ClassicMember, effects: Effects
) -> Promise[JoinGroupResponse]:
    group.update_protocols(member, joining.protocols)
    member.rebalance_timeout_ms = joining.rebalance_timeout_ms
    member.session_timeout_ms = joining.request.session_timeout_ms
    if member.awaiting_join is None:
        group.waiting_to_join += 1
    # The client has given up on an earlier request.
    effects.refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    return joining.begin_wait(member)


# Static members (KIP-345): a returning one takes its own place, under a new member id


def _take_place(
    state: GroupState, group: ClassicGroup, joining: Joining, old: ClassicMember, member_id: str, effects: Effects
) -> Decision[JoinGroupResponse]:
    """Avoids a rebalance if nothing changes for the others. A client that still uses the old member id is fenced."""
    leader_before = group.leader_id
    member = _replace(state, group, joining, old, member_id)
    if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
        effects.records.append(group_record(group))
        response = joined(group, member)
        if joining.version >= _SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = member.member_id == group.leader_id
        else:
            # Don't tell it that it leads, or it would assign.
            response.leader, response.members = leader_before or "", []

        def put_back(_refusal: Refusal) -> None:
            state.timers.clear(member)
            group.replace(member, old)
            begin_session(state, group, old)

        return effects.decision(response, put_back)
    effects.refuse(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    promise = _wait_to_join(group, joining, member, effects)
    rebalance_or_complete_join(state, group, effects, f"{member} replaces {old}: {joining.reason}")
    return effects.decision(promise)


def _replace(
    state: GroupState, group: ClassicGroup, joining: Joining, old: ClassicMember, member_id: str
) -> ClassicMember:
    member = ClassicMember(
        member_id,
        old.instance_id,
        old.client_id,
        old.client_host,
        joining.rebalance_timeout_ms,
        joining.request.session_timeout_ms,
        joining.protocols,
        old.assignment,
    )
    state.timers.clear(old)
    group.replace(old, member)
    begin_session(state, group, member)
    _log.info("%s replaces %s in %s", member, old, group)
    return member
