"""Interface of assignors, which divide the partitions of a classic group's topics among its members.

Each member tells the coordinator which assignors it has; the coordinator picks one that all have, and the member that
leads the group runs it for all. An assignor of one's own is any object with these attributes, given among
`partition_assignment_strategy`:

    class Everything:
        '''All to the first member, the others stand by.'''

        name = "everything"
        supported_protocols = (RebalanceProtocol.EAGER,)

        def subscription_user_data(self, topics):
            return None

        def assign(self, topics, subscriptions):
            everything = topics.partitions(topics.partition_counts)
            first, *others = sorted(subscriptions)
            return {first: Assignment(everything)} | {other: Assignment([]) for other in others}

        def on_assignment(self, assignment, metadata):
            pass
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """The more advanced, the higher."""

    EAGER = 0
    """Members let go of all they have before they join."""
    COOPERATIVE = 1
    """Members keep what they have until they are told to let go of some of it (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription as sent in JoinGroup."""

    topics: Sequence[str]
    user_data: bytes | None = None
    """Of the assignor itself."""
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION
    """In which it owned them."""
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's assignment."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """The topics that the members of a group read, as far as they exist."""

    partition_counts: Mapping[str, int]
    partition_racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    """Where the replicas are, as far as brokers tell their racks."""

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All of these topics, in their order."""
        return [TopicPartition(topic, index) for topic in topics for index in range(self.partition_counts[topic])]


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """By which the members of a group agree on it."""

    @property
    def supported_protocols(self) -> Sequence[RebalanceProtocol]: ...

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Data about this member for the leader's assignor; called before each join."""

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """By member id, for all of them. Only the leader's is asked."""

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Called on each member after a rebalance, with its assignment."""


class Stateless:
    """Base of assignors without state."""

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        pass
