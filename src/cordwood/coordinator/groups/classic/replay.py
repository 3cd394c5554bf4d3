"""Applies the records of classic groups to the state, and starts sessions once everything is loaded."""

from __future__ import annotations

from cordwood.coordinator.groups.state import GroupState
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata

from .classic_group import ClassicGroup
from .effects import Effects
from .member import ClassicMember
from .rebalance import end_timers, prepare_rebalance
from .sessions import begin_session, watch
from .states import ClassicState, Event


def replay_group(
    state: GroupState, key: GroupMetadataKey, value: GroupMetadataValue | None, _offset: int, _producer_id: int
) -> None:
    group = state.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            end_timers(state, group)
            group.move(Event.REMOVED, state.clock.now_ms())
            del state.groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = state.groups[key.group] = ClassicGroup(key.group, value.current_state_timestamp)
    if group.state is not ClassicState.PREPARING_REBALANCE:
        # Otherwise the group is ahead of the log.
        _take_in(group, value)


def groups_loaded(state: GroupState) -> None:
    """Starts a full session for every member."""
    for group in state.groups.values():
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                begin_session(state, group, member)
            if len(group.members) > state.config.integer("group.max.size"):
                # Pending members that return too late are rejected.
                prepare_rebalance(state, group, Effects(), "it has more members than it may have")


def _take_in(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Restores a group from its record. A live group has more: pending members, timers, all protocols."""
    said = {member.member_id: member for member in value.members}
    for member_id in [member_id for member_id in group.members if member_id not in said]:
        group.remove(member_id)
    for member_id, metadata in said.items():
        member = group.members.get(member_id)
        if member is None:
            member = _member(metadata, value.protocol)
            watch(group, member)
            group.add(member)
        else:
            _update(group, member, metadata, value.protocol)
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    group.settle(value.current_state_timestamp)


def _member(metadata: MemberMetadata, protocol: str | None) -> ClassicMember:
    return ClassicMember(
        metadata.member_id,
        metadata.group_instance_id,
        metadata.client_id,
        metadata.client_host,
        _rebalance_timeout_ms(metadata),
        metadata.session_timeout,
        # Only the chosen protocol is in the record, not the others that members support.
        ((protocol or "", metadata.subscription),),
        metadata.assignment,
    )


def _update(group: ClassicGroup, member: ClassicMember, metadata: MemberMetadata, protocol: str | None) -> None:
    member.client_id = metadata.client_id
    member.client_host = metadata.client_host
    member.rebalance_timeout_ms = _rebalance_timeout_ms(metadata)
    member.session_timeout_ms = metadata.session_timeout
    member.assignment = metadata.assignment
    if (protocol, metadata.subscription) not in member.protocols:
        group.update_protocols(member, ((protocol or "", metadata.subscription),))


def _rebalance_timeout_ms(metadata: MemberMetadata) -> int:
    """Falls back to the session timeout; old records have no rebalance timeout."""
    return metadata.session_timeout if metadata.rebalance_timeout == -1 else metadata.rebalance_timeout
