"""From the log into the state: offsets as they were committed, and the groups that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordwood.wire.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

from .classic.group import ClassicGroup

if TYPE_CHECKING:
    from .state import GroupState


def replay_offset(
    state: GroupState, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
) -> None:
    if value is not None and key.group not in state.groups:
        _add_simple_group(state, key.group)
    state.offsets.replay(key, value, offset, producer_id)


def replay_legacy_offset(
    state: GroupState, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, offset: int, producer_id: int
) -> None:
    if value is not None and key.group not in state.groups:
        _add_simple_group(state, key.group)
    state.offsets.replay_legacy(key, value, offset, producer_id)


def _add_simple_group(state: GroupState, group_id: str) -> None:
    """Whoever commits without being a member makes a classic group that has none."""
    state.groups[group_id] = ClassicGroup(group_id, state.clock.now_ms())
