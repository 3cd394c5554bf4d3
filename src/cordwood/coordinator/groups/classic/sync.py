"""SyncGroup: a member asks for its assignment. The leader's request contains the assignment of all members."""

from __future__ import annotations

from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

from .classic_group import ClassicGroup
from .effects import Effects
from .member import ClassicMember
from .rebalance import has_synced, prepare_rebalance
from .records import group_record
from .states import ClassicState


def sync(state: GroupState, group: ClassicGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
    member = _checked(group, request)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return Decision(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    has_synced(state, group, member.member_id)
    if group.state is ClassicState.STABLE:
        return Decision(_assigned(group, member.assignment))
    effects = Effects()
    # The client has given up on an earlier request.
    effects.refuse(member, ErrorCode.REBALANCE_IN_PROGRESS)
    member.awaiting_sync = promise = Promise[SyncGroupResponse]()
    if member.member_id != group.leader_id:
        return effects.decision(promise)
    return _assign(state, group, request, promise, effects)


def _checked(group: ClassicGroup, request: SyncGroupRequest) -> ClassicMember:
    member = group.checked_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"{group} is at generation {group.generation}")
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{group} speaks {group.protocol_type}, {group.protocol_name}"
        )
    return member


def _assign(
    state: GroupState,
    group: ClassicGroup,
    request: SyncGroupRequest,
    promise: Promise[SyncGroupResponse],
    effects: Effects,
) -> Decision[SyncGroupResponse]:
    """The group is stable once this is committed. Members that the leader left out get an empty assignment."""
    assignments = {assigned.member_id: assigned.assignment for assigned in request.assignments}
    effects.records.append(group_record(group, assignments))
    for member in group.members.values():
        if member.awaiting_sync is not None:
            effects.answer(member.awaiting_sync, _assigned(group, assignments.get(member.member_id, b"")))
            member.awaiting_sync = None
            member.renew_session(state.timers)

    def refused(refusal: Refusal) -> None:
        response = SyncGroupResponse(error_code=coordinator_error(refusal.error))
        for answer in effects.answers:
            answer.promise.resolve(response)
        prepare_rebalance(state, group, Effects(), f"the assignment could not be written: {refusal}")

    return effects.decision(promise, refused)


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )
