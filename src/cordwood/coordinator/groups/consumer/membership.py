"""Identifies the sender of a heartbeat, or of a classic member's JoinGroup: an existing member, or a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cordwood.coordinator.groups.state import GroupState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

from . import records
from .consumer_group import NO_TARGET, ConsumerGroup
from .member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, Member, OwnedTopic, owns_only
from .timeouts import end_timers


def check_room(state: GroupState, group: ConsumerGroup, member_id: str) -> None:
    max_size = state.config.integer("group.consumer.max.size")
    if len(group.members) >= max_size and member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def static_member_in_place_of(
    state: GroupState, group: ConsumerGroup, existing: Member, member_id: str, written: list[CoordinatorRecord]
) -> Member:
    """Returns the static member under its new id, or its own; it takes over its predecessor's state."""
    member = replace(existing, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    group_id = group.group_id
    if member_id == existing.member_id:
        # Tombstones are replayed after this decision, and would end the session that begins in it.
        end_timers(state, group_id, member_id)
    else:
        written += records.member_tombstones(group_id, existing.member_id)
    written.append(records.member_record(group_id, member))
    written.append(records.target_record(group_id, member_id, group.target.get(existing.member_id, NO_TARGET)))
    written.append(records.current_assignment_record(group_id, member))
    return member


def check_released(existing: Member, member_id: str) -> None:
    """The first of two consumers with one instance id stays, unless it has left temporarily (epoch -2)."""
    if existing.epoch != LEAVING_STATIC_EPOCH:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {existing.instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member.",
        )


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    existing = group.static_member(instance_id)
    if existing is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}.",
        )
    return existing


def check_epoch(member: Member, epoch: int, owned: Iterable[OwnedTopic] | None) -> None:
    """Accepts the previous epoch too, because the response with the new one may have been lost, if the member owns
    nothing that it has lost since."""
    if epoch in (member.epoch, JOINING_EPOCH):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and owns_only(owned, member.assigned):
        return
    than = "greater" if epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )
