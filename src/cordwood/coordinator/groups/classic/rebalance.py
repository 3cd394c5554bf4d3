"""A rebalance of a classic group: from the first member that must rejoin to a generation that all members know.

    prepare_rebalance → members join, or the timeout expires → complete_join → members sync, or the time is over

The leader's assignment is handled by `sync`.
"""

from __future__ import annotations

import logging
from functools import partial

from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from cordwood.wire.messages.sync_group import SyncGroupResponse

from .classic_group import ClassicGroup
from .effects import Effects
from .member import ClassicMember
from .records import group_record
from .states import ClassicState, Event

_log = logging.getLogger(__name__)

# However long the rebalance timeout is, check for members that have not joined at least this often.
_WAIT_AGAIN_MS = 1000


def rebalance_or_complete_join(state: GroupState, group: ClassicGroup, effects: Effects, reason: str) -> None:
    """Starts a rebalance after a change, or completes the one in progress."""
    if group.can_rebalance:
        prepare_rebalance(state, group, effects, reason)
    else:
        complete_join_if_all_have(state, group, effects)


def prepare_rebalance(state: GroupState, group: ClassicGroup, effects: Effects, reason: str) -> None:
    _log.info("Group %s (classic): rebalancing from generation %d: %s", group.group_id, group.generation, reason)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _cancel_syncs(state, group, effects)
    end_sync_phase(state, group)
    group.move(Event.REBALANCE, state.clock.now_ms())
    if group.is_initial_rebalance:
        _wait_for_more(state, group)
    elif group.have_all_joined:
        complete_join(state, group, effects)
    else:
        _wait_for_all(state, group)


def _cancel_syncs(state: GroupState, group: ClassicGroup, effects: Effects) -> None:
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            effects.answer(member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_sync = None
            # Its session may have expired while it waited.
            member.renew_session(state.timers)


# How long the group waits for members


def _wait_for_more(state: GroupState, group: ClassicGroup) -> None:
    """The first member is usually not the only one: wait before anything is assigned. Each new member extends the
    delay, up to the rebalance timeout."""
    group.has_grown = False
    delay_ms = state.config.integer("group.initial.rebalance.delay.ms")
    remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    state.timers.after(_join_key(group), delay_ms, partial(_initial_delay_over, group, delay_ms, remaining_ms))


def _initial_delay_over(group: ClassicGroup, delay_ms: int, remaining_ms: int, state: GroupState) -> Decision[None]:
    if not group.has_grown or remaining_ms == 0:
        return _join_time_over(group, state)
    group.has_grown = False
    next_delay_ms = min(state.config.integer("group.initial.rebalance.delay.ms"), remaining_ms)
    next_remaining_ms = max(remaining_ms - delay_ms, 0)
    state.timers.after(
        _join_key(group), next_delay_ms, partial(_initial_delay_over, group, next_delay_ms, next_remaining_ms)
    )
    return Decision(None)


def _wait_for_all(state: GroupState, group: ClassicGroup, *, at_least_ms: int = 0) -> None:
    timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
    state.timers.after(_join_key(group), timeout_ms, partial(_join_time_over, group))


def _join_time_over(group: ClassicGroup, state: GroupState) -> Decision[None]:
    effects = Effects()
    if group.state is ClassicState.PREPARING_REBALANCE:
        complete_join(state, group, effects)
    return effects.decision(None)


# The generation


def complete_join_if_all_have(state: GroupState, group: ClassicGroup, effects: Effects) -> None:
    """The join of a group that was empty completes by timeout only."""
    is_preparing = group.state is ClassicState.PREPARING_REBALANCE
    if is_preparing and not group.is_initial_rebalance and group.have_all_joined:
        complete_join(state, group, effects)


def complete_join(state: GroupState, group: ClassicGroup, effects: Effects) -> None:
    """Starts the next generation with the members that have joined, and static members even if they have not."""
    state.timers.clear(_join_key(group))
    late = [member for member in group.members.values() if member.awaiting_join is None and not member.is_static]
    for member in late:
        _log.info("%s of %s did not join in time and is out", member, group)
        state.timers.clear(member)
        group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Static members are removed when their sessions expire, not before.
        _log.warning("%s cannot complete its rebalance: none of its members has joined", group)
        _wait_for_all(state, group, at_least_ms=_WAIT_AGAIN_MS)
        return
    group.generation += 1
    if group.members:
        group.protocol_name = group.select_protocol()
        group.move(Event.ALL_JOINED, state.clock.now_ms())
        _begin_sync_phase(state, group, effects)
    else:
        group.protocol_name = None
        group.move(Event.ALL_GONE, state.clock.now_ms())
        effects.records.append(group_record(group))
    _log.info("Group %s (classic): generation %d (members: %d)", group.group_id, group.generation, len(group.members))


def _begin_sync_phase(state: GroupState, group: ClassicGroup, effects: Effects) -> None:
    for member in group.members.values():
        if member.awaiting_join is not None:
            effects.answer(member.awaiting_join, joined(group, member))
            group.waiting_to_join -= 1
            member.awaiting_join = None
        member.is_new = False
        member.renew_session(state.timers)
    group.pending_syncs = dict.fromkeys(group.members)
    alarm = partial(_sync_time_over, group, group.generation)
    state.timers.after(_sync_key(group), group.rebalance_timeout_ms, alarm)


def joined(group: ClassicGroup, member: ClassicMember, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """The response about the generation; only the leader, which assigns, gets the list of members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        skip_assignment=skip_assignment,
        members=_all_members(group) if member.member_id == group.leader_id else [],
    )


def _all_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


# Waiting for SyncGroups


def end_sync_phase(state: GroupState, group: ClassicGroup) -> None:
    group.pending_syncs.clear()
    state.timers.clear(_sync_key(group))


def has_synced(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        state.timers.clear(_sync_key(group))


def _sync_time_over(group: ClassicGroup, generation: int, state: GroupState) -> Decision[None]:
    """Removes members that have joined but not synced: they are dead or stuck (KAFKA-13435)."""
    effects = Effects()
    if group.generation == generation and group.pending_syncs and group.can_rebalance:
        late = list(group.pending_syncs)
        for member_id in late:
            state.timers.clear(group.members[member_id])
            group.remove(member_id)
        prepare_rebalance(state, group, effects, f"{', '.join(late)} did not sync in time")
    return effects.decision(None)


# Clean-up


def end_timers(state: GroupState, group: ClassicGroup) -> None:
    """Cancels the timers of a removed group."""
    state.timers.clear(_join_key(group))
    state.timers.clear(_sync_key(group))
    group.end_sessions(state.timers)


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.group_id


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.group_id
