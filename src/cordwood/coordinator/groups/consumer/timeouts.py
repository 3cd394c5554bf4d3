"""Timeouts of a consumer group's members.

The session lasts until the next heartbeat, the rebalance timeout until the member has revoked its partitions. Classic
members instead have deadlines for rejoining and for SyncGroup.
"""

from __future__ import annotations

import logging
from functools import partial

from cordwood.coordinator.groups.state import GroupState
from cordwood.shard.decision import Decision

from .consumer_group import ConsumerGroup
from .fencing import fence
from .member import Member, MemberState

_log = logging.getLogger(__name__)


def begin_session(state: GroupState, group_id: str, member_id: str, timeout_ms: int) -> None:
    """Starts or renews a session."""
    key = ("consumer-session", group_id, member_id)
    if not state.timers.postpone(key, timeout_ms):
        state.timers.after(key, timeout_ms, partial(_expired, group_id, member_id, "session"))


def follow_rebalance(state: GroupState, group_id: str, member: Member) -> None:
    """Updates the rebalance timer after a step of the reconciliation."""
    key = ("consumer-rebalance", group_id, member.member_id)
    if member.classic is not None:
        return
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        alarm = partial(_still_revoking, group_id, member.member_id, member.epoch)
        state.timers.after(key, member.rebalance_timeout_ms, alarm)
    else:
        state.timers.clear(key)


def expect_join(state: GroupState, group_id: str, member: Member) -> None:
    """Starts the rejoin deadline of a classic member."""
    key = ("consumer-join", group_id, member.member_id)
    if key not in state.timers:
        alarm = partial(_expired, group_id, member.member_id, "time to join")
        state.timers.after(key, member.rebalance_timeout_ms, alarm)


def end_join(state: GroupState, group_id: str, member_id: str) -> None:
    state.timers.clear(("consumer-join", group_id, member_id))


def expect_sync(state: GroupState, group_id: str, member_id: str, timeout_ms: int) -> None:
    """Starts the SyncGroup deadline of a classic member that has joined."""
    state.timers.after(
        ("consumer-sync", group_id, member_id), timeout_ms, partial(_expired, group_id, member_id, "time to sync")
    )


def end_sync(state: GroupState, group_id: str, member_id: str) -> None:
    state.timers.clear(("consumer-sync", group_id, member_id))


def end_timers(state: GroupState, group_id: str, member_id: str) -> None:
    """Cancels the timers of a removed member."""
    for kind in ("consumer-session", "consumer-rebalance", "consumer-join", "consumer-sync"):
        state.timers.clear((kind, group_id, member_id))


def begin_all(state: GroupState) -> None:
    """Restarts all timers after loading."""
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            timeout_ms = group.timing.get(state, group.group_id).session_timeout_ms
            for member in group.members.values():
                begin_session(state, group.group_id, member.member_id, timeout_ms)
                follow_rebalance(state, group.group_id, member)


def _expired(group_id: str, member_id: str, what: str, state: GroupState) -> Decision[None]:
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None:
        return Decision(None)
    _log.info("Removing member %s from group %s: its %s expired", member_id, group_id, what)
    return fence(state, group, [member], None)


def _still_revoking(group_id: str, member_id: str, epoch: int, state: GroupState) -> Decision[None]:
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None or member.epoch != epoch:
        return Decision(None)
    _log.info(
        "Removing member %s from group %s: still in epoch %d after its rebalance timeout", member_id, group_id, epoch
    )
    return fence(state, group, [member], None)
