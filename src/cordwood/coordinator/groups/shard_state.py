"""The state of a group coordinator's shard, driven by the shard runtime with log records and metadata.

`replay` is the only way for log contents to enter the state, while loading and afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataKey
from cordwood.wire.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from cordwood.wire.schema import CoordinatorKey

from .classic.replay import groups_loaded, replay_group
from .consumer import replay as consumer_groups
from .offset_expiry import schedule_expiry, topics_deleted
from .state import GroupState, Replay


class GroupShardState(GroupState):
    # Log contents

    def replay(self, records: Sequence[CoordinatorRecord], first_offset: int, producer_id: int) -> None:
        for offset, (key, value, _version) in enumerate(records, first_offset):
            replay = REPLAY.get(type(key))
            if replay is not None:
                replay(self, key, value, offset, producer_id)

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        """Applies or drops the offsets that were committed in a transaction."""
        self.offsets.replay_end_txn(producer_id, commit=commit)

    def loaded(self) -> None:
        """Called after replay: starts what is not in the log, such as sessions."""
        groups_loaded(self)
        consumer_groups.groups_loaded(self)
        schedule_expiry(self)

    # Other events

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Records the change; timers or the next request then decide what to write."""
        topics_deleted(self, delta)
        consumer_groups.metadata_changed(self, delta, image)


def _replay_offset(
    state: GroupState, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
) -> None:
    if value is not None and key.group not in state.groups:
        _add_simple_group(state, key.group)
    state.offsets.replay(key, value, offset, producer_id)


def _replay_legacy_offset(
    state: GroupState, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, offset: int, producer_id: int
) -> None:
    if value is not None and key.group not in state.groups:
        _add_simple_group(state, key.group)
    state.offsets.replay_legacy(key, value, offset, producer_id)


def _add_simple_group(state: GroupState, group_id: str) -> None:
    """A commit without membership creates a classic group without members."""
    state.groups[group_id] = ClassicGroup(group_id, state.clock.now_ms())


REPLAY: Mapping[type[CoordinatorKey], Replay] = {
    GroupMetadataKey: replay_group,
    OffsetCommitKey: _replay_offset,
    LegacyOffsetCommitKey: _replay_legacy_offset,
    **consumer_groups.REPLAY,
}
