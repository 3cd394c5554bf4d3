"""The interface of every kind of group."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.primitives import Uuid

PartitionCheck = Callable[[str, Uuid, int], None]
"""Called with a topic's name, its id and a partition; raises Refusal, for the whole request, if the commit is
invalid."""


class GroupType(Enum):
    """Spelled as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    group_id: str

    @property
    def type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; empty for a group that only has offsets."""

    @property
    def state_name(self) -> str:
        """Spelled as in ListGroups and the describe requests."""

    @property
    def is_empty(self) -> bool:
        """True if the group has no members."""

    # Each of these raises Refusal with Kafka's error, or returns if the request is valid.

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> PartitionCheck | None:
        """Checks that this member of this generation (or member epoch) may commit. `version` is the request's. Returns
        a check per partition if the result depends on the partition (an earlier epoch in which the member already owned
        it)."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Used by OffsetDelete and the expiry of offsets; True if unknown."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """The tombstones that remove the group (not its offsets) from the log."""

    @property
    def offsets_expire_from_ms(self) -> int | None:
        """Returns the time when the last member left: nothing expires before `offsets.retention.minutes` after it. None
        means that offsets expire by their commit time once the topic has no subscribers (KIP-211)."""
