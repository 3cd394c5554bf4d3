"""The state of one shard of the group coordinator: its groups and their offsets.

Decisions are functions of it in the modules beside this one; `replay` is the only way in which what is in the log
comes into it, while it is loaded and while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataKey
from cordwood.wire.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey
from cordwood.wire.schema import CoordinatorKey

from .classic.replay import groups_loaded, replay_group
from .consumer import replay as consumer_groups
from .consumer.topics import SubscribedTopics
from .group import Group
from .offset_expiry import schedule_expiry, topics_deleted
from .offset_replay import replay_legacy_offset, replay_offset
from .offsets import Offsets

# (state, key, value or None, offset, producer id or -1)
Replay = Callable[["GroupState", Any, Any, int, int], None]


class GroupState:
    def __init__(
        self,
        clock: Clock,
        random: Random,
        config: Callable[[], BrokerConfig],
        metadata: Callable[[], MetadataImage],
        group_settings: Callable[[str], Settings],
    ) -> None:
        self.clock = clock
        self.random = random
        self.timers = Timers(clock)
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.subscribed_topics = SubscribedTopics()
        self._config = config
        self._metadata = metadata
        self._group_settings = group_settings

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    @property
    def image(self) -> MetadataImage:
        """The metadata as it is committed."""
        return self._metadata()

    def group_settings(self, group_id: str) -> Settings:
        """The group's dynamic settings."""
        return self._group_settings(group_id)

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group

    # What is in the log

    def replay(self, records: Sequence[CoordinatorRecord], first_offset: int, producer_id: int) -> None:
        for offset, (key, value, _version) in enumerate(records, first_offset):
            replay = REPLAY.get(type(key))
            if replay is not None:
                replay(self, key, value, offset, producer_id)

    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        """Offsets that were committed in a transaction count, or do not."""
        self.offsets.replay_end_txn(producer_id, commit=commit)

    def loaded(self) -> None:
        """Everything is replayed: what the log does not have begins anew, the sessions of members for one."""
        groups_loaded(self)
        consumer_groups.groups_loaded(self)
        schedule_expiry(self)

    # What else may happen

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Takes note; what has to be written is decided by timers or with the next request."""
        topics_deleted(self, delta)
        consumer_groups.metadata_changed(self, delta, image)


REPLAY: Mapping[type[CoordinatorKey], Replay] = {
    GroupMetadataKey: replay_group,
    OffsetCommitKey: replay_offset,
    LegacyOffsetCommitKey: replay_legacy_offset,
    **consumer_groups.REPLAY,
}
