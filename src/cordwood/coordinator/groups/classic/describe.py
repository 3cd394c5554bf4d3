"""DescribeGroups: a classic group and its members."""

from __future__ import annotations

from cordwood.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

from .group import ClassicGroup
from .states import ClassicState


def describe(group: ClassicGroup) -> DescribedGroup:
    """Reports the members' protocol only while it is valid."""
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
