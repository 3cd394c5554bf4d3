"""Interface of assignors, which divide the partitions of a classic group's topics among its members.

Each member sends the coordinator its assignors; the coordinator picks one that all members have, and the group's leader
runs it. A custom assignor is any object with these attributes, given in `partition_assignment_strategy`:

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
    """Members revoke all partitions before they join."""
    COOPERATIVE = 1
    """Members keep their partitions until they are told to revoke some (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription as sent in JoinGroup."""

    topics: Sequence[str]
    user_data: bytes | None = None
    """Data of the assignor itself."""
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = NO_GENERATION
    """The generation in which it owned them."""
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's assignment."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """The topics that the members of a group subscribe to, as far as they exist."""

    partition_counts: Mapping[str, int]
    partition_racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    """The racks of each partition's replicas, as far as brokers report them."""

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Returns all partitions of these topics, in order."""
        return [TopicPartition(topic, index) for topic in topics for index in range(self.partition_counts[topic])]


class Assignor(Protocol):
    @property
    def name(self) -> str:
        """The name by which the members of a group agree on it."""

    @property
    def supported_protocols(self) -> Sequence[RebalanceProtocol]: ...

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Data about this member for the leader's assignor; called before each join."""

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Returns the assignment of every member, by id. Called on the leader only."""

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Called on each member after a rebalance, with its assignment."""


class Stateless:
    """Base of assignors without state."""

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        pass
