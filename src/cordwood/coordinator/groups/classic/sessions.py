"""The timers of a classic group's members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .group import ClassicGroup
from .member import ClassicMember
from .states import ClassicState

if TYPE_CHECKING:
    from cordwood.coordinator.groups.state import GroupState


def renew_session(state: GroupState, member: ClassicMember, timeout_ms: int | None = None) -> None:
    """It was heard of. What happens if it is not any more, `expiry` has said when it became a member."""
    assert member.session_alarm is not None
    state.timers.after(member, member.session_timeout_ms if timeout_ms is None else timeout_ms, member.session_alarm)


def renew_session_by_commit(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    """A member that commits offsets is alive."""
    member = group.members.get(member_id)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        renew_session(state, member)


def end_sessions(state: GroupState, group: ClassicGroup) -> None:
    for member in group.members.values():
        state.timers.clear(member)
    for member_id in group.pending_joins:
        state.timers.clear(pending_key(group, member_id))


def pending_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return "pending", group.group_id, member_id
