"""The record of a classic group: its last stable or empty generation, complete."""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata

from .classic_group import ClassicGroup

# The version that Kafka 4.3 writes; version 4 would only add flexible encoding.
_VALUE_VERSION = 3


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
    """Returns the record with the members' current assignments, or with the given new ones."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, _VALUE_VERSION)


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Returns the record of a new group without members."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_since_ms)
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, _VALUE_VERSION)
