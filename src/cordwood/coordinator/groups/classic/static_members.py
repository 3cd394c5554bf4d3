"""Static members (KIP-345): one who comes back under its name takes its own place, with a new member id."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupResponse

from .effects import Effects
from .expiry import begin_session
from .group import ClassicGroup
from .joining import Joining, wait_to_join
from .member import ClassicMember
from .rebalance import joined, rebalance_or_complete_join
from .records import group_record
from .states import ClassicState

if TYPE_CHECKING:
    from cordwood.coordinator.groups.state import GroupState

_log = logging.getLogger(__name__)

# From this version on a leader can be told that it need not assign anything (KIP-814).
_SKIP_ASSIGNMENT_SINCE = 9


def take_place(
    state: GroupState, group: ClassicGroup, joining: Joining, old: ClassicMember, member_id: str, effects: Effects
) -> Decision[JoinGroupResponse]:
    """Without a rebalance, where nothing changes for the others. Whoever still uses the old member id is fenced."""
    leader_before = group.leader_id
    member = _replace(state, group, joining, old, member_id)
    if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
        effects.records.append(group_record(group))
        response = joined(group, member)
        if joining.version >= _SKIP_ASSIGNMENT_SINCE:
            response.skip_assignment = member.member_id == group.leader_id
        else:
            # It is not to know that it leads, or it would assign.
            response.leader, response.members = leader_before or "", []

        def put_back(_refusal: Refusal) -> None:
            state.timers.clear(member)
            group.replace(member, old)
            begin_session(state, group, old)

        return effects.decision(response, put_back)
    effects.refuse(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    promise = wait_to_join(group, joining, member, effects)
    rebalance_or_complete_join(state, group, effects, f"{member} takes the place of {old}: {joining.reason}")
    return effects.decision(promise)


def _replace(
    state: GroupState, group: ClassicGroup, joining: Joining, old: ClassicMember, member_id: str
) -> ClassicMember:
    member = ClassicMember(
        member_id,
        old.instance_id,
        old.client_id,
        old.client_host,
        joining.rebalance_timeout_ms,
        joining.request.session_timeout_ms,
        joining.protocols,
        old.assignment,
    )
    state.timers.clear(old)
    group.replace(old, member)
    begin_session(state, group, member)
    _log.info("%s takes the place of %s in %s", member, old, group)
    return member
