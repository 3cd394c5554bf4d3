"""The interface of every kind of group."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.wire.primitives import Uuid

PartitionCheck = Callable[[str, Uuid, int], None]
"""Of a topic's name, its id and a partition: Refusal, for the whole request, where it must not be committed."""


class GroupType(Enum):
    """As ListGroups spells them."""

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
        """As ListGroups and the describing requests spell it."""

    @property
    def is_empty(self) -> bool:
        """It has no members."""

    # Each of these raises Refusal with the error that Kafka has for it, or lets it be.

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> PartitionCheck | None:
        """Checks that this member of this generation (or member epoch) may commit. `version` is the request's. Where
        that depends on the partition (an earlier epoch in which the member had it already), a check for each of
        them."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Where that is not known it counts as subscribed; for OffsetDelete and the expiry of offsets."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """The tombstones that remove the group (not its offsets) from the log."""

    @property
    def offsets_expire_from_ms(self) -> int | None:
        """None: the offsets of a topic expire by the time of their commit, once nobody is subscribed to it. Otherwise
        the time at which the group was left by all: nothing expires before `offsets.retention.minutes` after it. The
        group says which rule holds for it (KIP-211)."""
