"""The state of one shard of the group coordinator: its groups and their offsets.

Decisions are functions of it in the neighbouring modules. `shard_state` applies the log and the metadata to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cordwood.config.broker import BrokerConfig, Settings
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode

from .consumer.topics import SubscribedTopics
from .group import Group
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
        """The committed metadata."""
        return self._metadata()

    def group_settings(self, group_id: str) -> Settings:
        """The group's dynamic settings."""
        return self._group_settings(group_id)

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group
