"""Sessions of a classic group's members: a member that leaves or times out is removed, and the others rebalance."""

from __future__ import annotations

import logging
from functools import partial

from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision
from cordwood.wire.errors import ErrorCode

from .classic_group import ClassicGroup
from .effects import Effects
from .member import ClassicMember
from .rebalance import complete_join, rebalance_or_complete_join
from .states import ClassicState

_log = logging.getLogger(__name__)


def begin_session(state: GroupState, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
    watch(group, member)
    member.renew_session(state.timers, timeout_ms)


def renew_session_by_commit(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    """A member that commits offsets renews its session."""
    member = group.members.get(member_id)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        member.renew_session(state.timers)


def watch(group: ClassicGroup, member: ClassicMember) -> None:
    """Sets the callback for an expired session; leaves the session itself alone."""
    member.session_alarm = partial(_session_over, group, member)


def _session_over(group: ClassicGroup, member: ClassicMember, state: GroupState) -> Decision[None]:
    effects = Effects()
    # A timer whose record was refused fires again, when the member is already removed.
    if group.members.get(member.member_id) is member and member.may_expire:
        _log.info("%s of %s timed out and is removed", member, group)
        remove_member(state, group, member, effects)
        if group.state is not ClassicState.PREPARING_REBALANCE:
            rebalance_or_complete_join(state, group, effects, f"{member} timed out")
        elif group.have_all_joined:
            complete_join(state, group, effects)
    return effects.decision(None)


def remove_member(state: GroupState, group: ClassicGroup, member: ClassicMember, effects: Effects) -> None:
    """Removes the member; a pending request is answered, so that its client rejoins."""
    state.timers.clear(member)
    group.remove(member.member_id)
    effects.refuse(member, ErrorCode.UNKNOWN_MEMBER_ID)


# Pending members: given an id, expected to return with it (KIP-394)


def expect_join(state: GroupState, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    group.pending_joins[member_id] = None
    state.timers.after(group.pending_key(member_id), timeout_ms, partial(_pending_over, group, member_id))


def remove_pending(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    state.timers.clear(group.pending_key(member_id))
    group.remove(member_id)


def _pending_over(group: ClassicGroup, member_id: str, state: GroupState) -> Decision[None]:
    effects = Effects()
    was_waited_for = member_id in group.pending_joins
    group.remove(member_id)
    if was_waited_for and group.state is ClassicState.PREPARING_REBALANCE and group.have_all_joined:
        complete_join(state, group, effects)
    return effects.decision(None)
