"""A member of a consumer group: its subscription, and its progress towards its target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from cordwood.wire.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from cordwood.wire.messages.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from cordwood.wire.primitives import Uuid

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""Topic id → partition → the epoch in which the member was assigned it. Topics without partitions are left out."""

NO_PARTITIONS: PartitionEpochs = MappingProxyType({})

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
# A static member that will return with another member id.
LEAVING_STATIC_EPOCH = -2


class MemberState(IntEnum):
    """The states as stored in records."""

    STABLE = 0
    # It must revoke partitions, and confirm that by no longer owning them.
    UNREVOKED_PARTITIONS = 1
    # It waits for partitions that others have not revoked yet.
    UNRELEASED_PARTITIONS = 2
    # Written by a later release.
    UNKNOWN = 127


class OwnedTopic(Protocol):
    """Partitions that a member claims to own."""

    topic_id: Uuid
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    # Empty or None: no regular expression.
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)
    # For a member that speaks the classic protocol: the metadata of its JoinGroup.
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.epoch == epoch and self.state is MemberState.STABLE

    def moved_to(self, epoch: int, state: MemberState, assigned: PartitionEpochs, pending: PartitionEpochs) -> Member:
        """Returns the member after a step of its reconciliation."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Member:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
        known = value.state in MemberState._value2member_map_
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_partition_epochs(value.assigned_partitions, value.member_epoch),
            pending_revocation=_partition_epochs(value.partitions_pending_revocation, value.member_epoch),
        )


def owns_any(owned: Iterable[OwnedTopic] | None, partitions: PartitionEpochs) -> bool:
    """True if the member claims to own any of the partitions. A member that makes no claim might."""
    if owned is None:
        return True
    return any(not partitions.get(topic.topic_id, {}).keys().isdisjoint(topic.partitions) for topic in owned)


def owns_only(owned: Iterable[OwnedTopic] | None, partitions: PartitionEpochs) -> bool:
    """True if the member claims to own no other partitions. A member that makes no claim might not."""
    if owned is None:
        return False
    return all(
        topic.topic_id in partitions and partitions[topic.topic_id].keys() >= set(topic.partitions) for topic in owned
    )


def _partition_epochs(topics: Sequence[TopicPartitions], epoch: int) -> PartitionEpochs:
    # Before 4.2 no epochs were written; a static member that has left (-2) counts from 0.
    epoch = max(epoch, 0)
    return {
        topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs, strict=True))
        if topic.assignment_epochs is not None and len(topic.assignment_epochs) == len(topic.partitions)
        else dict.fromkeys(topic.partitions, epoch)
        for topic in topics
    }
