"""Listing groups."""

from __future__ import annotations

from collections.abc import Collection

from cordwood.shard.decision import Decision
from cordwood.wire.messages.list_groups import ListedGroup

from .state import GroupState


def list_groups(state: GroupState, states: Collection[str], types: Collection[str]) -> Decision[list[ListedGroup]]:
    """Returns the groups in one of the states and of one of the types (lower case); an empty filter matches all."""
    return Decision(
        [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type.value,
            )
            for group in state.groups.values()
            if (not states or group.state_name.lower() in states) and (not types or group.type.value in types)
        ]
    )
