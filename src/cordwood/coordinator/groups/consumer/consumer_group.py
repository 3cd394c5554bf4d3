"""A group of the consumer protocol: its members, their target assignments and their current assignments.

Everything except the three fields at the end comes from the log, through `replay`. Decisions read the group and write
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.coordinator.groups.group import GroupType, PartitionCheck
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from . import records
from .member import Member, MemberState, PartitionEpochs
from .settings import TimingCache
from .subscriptions import ResolvedRegex, Subscriptions

PROTOCOL_TYPE = "consumer"
NO_TARGET: MemberPartitions = MappingProxyType({})

NOT_CHECKED = 1 << 31

_NO_EPOCH = -1
# From this version on OffsetCommit carries member epochs.
_COMMIT_VERSION_WITH_EPOCHS = 9


class ConsumerGroup:
    __slots__ = (
        "_classic_protocols",
        "_partition_epochs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "classic_count",
        "epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_checked_in",
        "metadata_hash",
        "resolved",
        "server_assignors",
        "static_members",
        "subscriptions",
        "target",
        "timing",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        # Increases whenever there is something new to assign; the target belongs to `assignment_epoch`. Both start at
        # 1, so that a member has an epoch even before anything is assigned.
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        # Instance id → member id.
        self.static_members: dict[str, str] = {}
        # The members' target assignments.
        self.target: dict[str, MemberPartitions] = {}
        self.subscriptions = Subscriptions()
        self.resolved: dict[str, ResolvedRegex] = {}
        # Number of members that ask for each assignor.
        self.server_assignors: dict[str, int] = {}
        self.classic_count = 0
        self._classic_protocols: dict[str, int] = {}
        # Topic id → partition → the epoch of the member that owns it, or is about to revoke it.
        self._partition_epochs: dict[Uuid, dict[int, int]] = {}
        # A record from before 4.1 exists and must be removed.
        self.has_partition_metadata = False
        # The group epoch in which the hash was last compared with the metadata. A lower one means that it must be
        # compared: nothing is known yet, or the epoch could not be written.
        self.metadata_checked_in = NOT_CHECKED
        self.timing = TimingCache()

    # Members

    def member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: Member) -> MemberPartitions:
        """Returns a member's target; for a static member, that of the previous owner of its instance id."""
        if member.instance_id is None:
            return self.target.get(member.member_id, NO_TARGET)
        previous = self.static_members.get(member.instance_id)
        return NO_TARGET if previous is None else self.target.get(previous, NO_TARGET)

    def owner_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the partition's owner; -1 if it has none."""
        epochs = self._partition_epochs.get(topic_id)
        return _NO_EPOCH if epochs is None else epochs.get(partition, _NO_EPOCH)

    def waits_for_others(self, member: Member) -> bool:
        """True if a partition in a member's target still belongs to another member."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.owner_epoch(topic_id, partition) != _NO_EPOCH
            for topic_id, partitions in self.target.get(member.member_id, NO_TARGET).items()
            for partition in partitions
        )

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a classic member may join: all existing classic members must support one of its protocols."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if not self.members:
            return any(True for _ in names)
        return any(self._classic_protocols.get(name, 0) == self.classic_count for name in names)

    def all_are_classic_without(self, members: Iterable[Member]) -> bool:
        left = list(members)
        left_classic = sum(member.classic is not None for member in left)
        return self.classic_count - left_classic == len(self.members) - len(left)

    # The interface of every kind of group

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> PartitionCheck | None:
        if generation < 0 and not self.members:
            # An administrator, or a consumer that manages its partitions itself.
            return None
        if transactional and generation == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and member.classic is None and version < _COMMIT_VERSION_WITH_EPOCHS:
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise _stale(member, f"{_said(member)} {generation} is newer than current member epoch {member.epoch}.")
        return _check_of_earlier_epoch(member, generation)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(
                member, f"{_said(member)} {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Offsets of topics without subscribers may be deleted while there are members."""

    def check_delete(self) -> None:
        if self.members:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """Returns the tombstones that remove the group from the log."""
        group_id = self.group_id
        members = list(member_ids)
        return [
            *(records.current_assignment_tombstone(group_id, member_id) for member_id in members),
            *(records.target_tombstone(group_id, member_id) for member_id in members),
            records.target_epoch_tombstone(group_id),
            *(records.member_tombstone(group_id, member_id) for member_id in members),
            *(records.regex_tombstone(group_id, regex) for regex in self.resolved),
            records.partition_metadata_tombstone(group_id),
            records.group_tombstone(group_id),
        ]

    @property
    def offsets_expire_from_ms(self) -> int | None:
        return None

    # Replay

    def put_member(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is None:
            self._add_metadata(member)
            self._add_partitions(member)
            return
        if before.topic_names != member.topic_names or before.topic_regex != member.topic_regex:
            self.subscriptions.remove(before)
            self.subscriptions.add(member)
        if before.server_assignor != member.server_assignor:
            self._count_assignor(before, -1)
            self._count_assignor(member, 1)
        if before.classic is not member.classic:
            self._count_classic(before, -1)
            self._count_classic(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if (
            before.epoch != member.epoch
            or before.assigned is not member.assigned
            or before.pending_revocation is not member.pending_revocation
        ):
            self._remove_partitions(before)
            self._add_partitions(member)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self.subscriptions.remove(member)
        self._count_assignor(member, -1)
        self._count_classic(member, -1)
        self._remove_partitions(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def put_resolved(self, regex: str, resolved: ResolvedRegex | None) -> None:
        before = self.resolved.pop(regex, None)
        if before is not None:
            self.subscriptions.remove_resolved(before)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.subscriptions.add_resolved(resolved)

    def _add_metadata(self, member: Member) -> None:
        self.subscriptions.add(member)
        self._count_assignor(member, 1)
        self._count_classic(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _count_assignor(self, member: Member, change: int) -> None:
        if member.server_assignor is not None:
            _change(self.server_assignors, member.server_assignor, change)

    def _count_classic(self, member: Member, change: int) -> None:
        if member.classic is not None:
            self.classic_count += change
            for protocol in member.classic.supported_protocols:
                _change(self._classic_protocols, protocol.name, change)

    def _add_partitions(self, member: Member) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                epochs = self._partition_epochs.setdefault(topic_id, {})
                for number in numbers:
                    epochs[number] = member.epoch

    def _remove_partitions(self, member: Member) -> None:
        """Frees the partitions that the member still owns, but not those that another member owns by now."""
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                epochs = self._partition_epochs.get(topic_id)
                if epochs is None:
                    continue
                for number in numbers:
                    if epochs.get(number) == member.epoch:
                        del epochs[number]
                if not epochs:
                    del self._partition_epochs[topic_id]


def _check_of_earlier_epoch(member: Member, generation: int) -> PartitionCheck:
    """A commit sent before the member's epoch increased is valid for partitions that it already owned then."""

    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        epoch = _epoch_of(member.assigned, topic_id, partition)
        if epoch is None:
            epoch = _epoch_of(member.pending_revocation, topic_id, partition)
        if epoch is None:
            raise _stale(member, f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
        if generation < epoch:
            raise _stale(
                member,
                f"{_said(member)} {generation} is older than assignment epoch {epoch} for partition "
                f"{topic}-{partition}.",
            )

    return check


def _epoch_of(partitions: PartitionEpochs, topic_id: Uuid, partition: int) -> int | None:
    epochs: Mapping[int, int] | None = partitions.get(topic_id)
    return None if epochs is None else epochs.get(partition)


def _said(member: Member) -> str:
    return "Received member epoch" if member.classic is None else "Received generation id"


def _stale(member: Member, message: str) -> Refusal:
    """Returns the error in the protocol that the member speaks."""
    error = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return Refusal(error, message)


def _change(counts: dict[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
