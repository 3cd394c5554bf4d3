"""A classic group: its members, their protocols and its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cordwood.coordinator.groups.assignors.java_order import in_member_order
from cordwood.coordinator.groups.group import GroupType, PartitionCheck
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.group_records.group_metadata import GroupMetadataKey

from .member import ClassicMember, Protocols
from .states import TRANSITIONS, ClassicState, Event
from .subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics

# The expiry time if nothing expires.
_NEVER_MS = (1 << 63) - 1


class ClassicGroup:
    """Changed by the decisions of this package, and by replaying records (`records`).

    The log holds the last stable or empty generation; during a rebalance the group is ahead of the log.
    """

    __slots__ = (
        "_protocol_counts",
        "_topics",
        "_topics_of",
        "generation",
        "group_id",
        "has_grown",
        "is_initial_rebalance",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "waiting_to_join",
    )

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        # -1 if an old record lacks it.
        self.state_since_ms = now_ms
        self.generation = 0
        # The members' protocol type; empty until the first member joins.
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        # Member ids by group.instance.id.
        self.static_members: dict[str, str] = {}
        # Members that were given an id and have not rejoined with it.
        self.pending_joins: dict[str, None] = {}
        # Members that have not sent SyncGroup in this generation.
        self.pending_syncs: dict[str, None] = {}
        self.waiting_to_join = 0
        # The initial rebalance of an empty group waits for more members, and longer if the group is still growing.
        self.is_initial_rebalance = False
        self.has_grown = False
        # Number of members that support each protocol.
        self._protocol_counts: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None
        # The generation and protocol to which `_topics` belongs.
        self._topics_of: tuple[int, str | None] | None = None

    def __str__(self) -> str:
        return f"group {self.group_id}"

    # State

    def move(self, event: Event, now_ms: int) -> None:
        self.is_initial_rebalance = self.state is ClassicState.EMPTY
        self.state = TRANSITIONS[self.state, event]
        self.state_since_ms = now_ms

    def settle(self, since_ms: int) -> None:
        """Settles in the logged state: a group that has an assignment, or no members to assign anything to."""
        self.state = ClassicState.STABLE if self.members else ClassicState.EMPTY
        self.state_since_ms = since_ms
        self._topics_of = None

    @property
    def can_rebalance(self) -> bool:
        return (self.state, Event.REBALANCE) in TRANSITIONS

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    # Members

    def add(self, member: ClassicMember) -> None:
        """Adds a member whose protocols are supported."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._protocol_counts.update(name for name, _ in member.protocols)
        self.waiting_to_join += member.awaiting_join is not None
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Removes a member, or a pending one. If it was the leader, the longest-standing other member becomes
        leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._protocol_counts.subtract(name for name, _ in member.protocols)
            self.waiting_to_join -= member.awaiting_join is not None
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """Replaces a static member that has returned with another id; pending steps stay pending."""
        assert new.instance_id == old.instance_id
        led, has_to_sync = self.leader_id == old.member_id, old.member_id in self.pending_syncs
        self.remove(old.member_id)
        self.add(new)
        if led:
            self.leader_id = new.member_id
        if has_to_sync:
            self.pending_syncs[new.member_id] = None

    def update_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._protocol_counts.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._protocol_counts.update(name for name, _ in protocols)

    def checked_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Returns the member, or raises Refusal if it is unknown or was replaced."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is not None and current_id != member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} of {self} is another member by now")
            if current_id is None:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{self} has no static member {instance_id}")
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{self} has no member {member_id}")
        return member

    def end_sessions(self, timers: Timers) -> None:
        for member in self.members.values():
            timers.clear(member)
        for member_id in self.pending_joins:
            timers.clear(self.pending_key(member_id))

    def pending_key(self, member_id: str) -> tuple[str, str, str]:
        """The key of a pending member's timer."""
        return "pending", self.group_id, member_id

    @property
    def have_all_joined(self) -> bool:
        return self.waiting_to_join == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest timeout among the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Replaces a leader that has not joined; returns whether the group has a leader now."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is None:
            joined = (member.member_id for member in self.members.values() if member.awaiting_join is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader_id = elected
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """True if a member with these protocols can join: all others must support one of them."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts[name] == count for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Returns the protocol with the most votes among those that all members support."""
        count = len(self.members)
        candidates = {name for name, known in self._protocol_counts.items() if known == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        # Ties go to the first in Java's order, as in Kafka.
        return next(name for name in in_member_order(votes) if votes[name] == most)

    def topics(self) -> frozenset[str] | None:
        """The topics that the members of this generation subscribe to; None if unknown."""
        if self._topics_of != (self.generation, self.protocol_name):
            self._topics_of = (self.generation, self.protocol_name)
            self._topics = subscribed_topics(self.protocol_type, self.protocol_name, self.members.values())
        return self._topics

    # The interface of every kind of group

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> PartitionCheck | None:
        is_of_a_member = generation >= 0 or bool(member_id) or instance_id is not None
        if generation < 0 and self.is_empty:
            # From an administrator, or a consumer that assigns partitions itself.
            return None
        if is_of_a_member:
            self.checked_member(member_id, instance_id)
            if generation != self.generation:
                raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"{self} is at generation {self.generation}")
        elif not transactional and not self.is_empty:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{self} has members, and only they may commit")
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            # The member knows the generation, but not its assignment yet.
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS, f"{self} is rebalancing")
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Always allowed."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, f"{self} has members whose topics are unknown")

    def check_delete(self) -> None:
        if not self.is_empty:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, f"{self} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self.topics()
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE if topics is None else topic in topics

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    @property
    def offsets_expire_from_ms(self) -> int | None:
        if not self.protocol_type:
            return None
        if self.is_empty:
            return None if self.state_since_ms == -1 else self.state_since_ms
        if self.state is ClassicState.STABLE and self.topics() is not None:
            return None
        return _NEVER_MS
