"""Input and output of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cordwood.wire.primitives import Uuid, uuid_text

MemberPartitions = Mapping[Uuid, frozenset[int]]
"""Topic id → partitions. A topic without partitions is left out."""

Assignment = dict[str, MemberPartitions]
"""Member id → its partitions; contains every member of the group, also those without partitions.

Unchanged parts may be the very mappings that the assignor was given.
"""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member from an assignor's point of view: its subscription, and its last assignment."""

    rack_id: str | None
    """Kafka 4.3 passes it to its assignors, which don't use it; neither do ours."""
    instance_id: str | None
    topic_ids: frozenset[Uuid]
    assigned: MemberPartitions


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSubscription]
    is_homogeneous: bool
    """True if all members subscribe to the same topics."""


class TopicDescriber(Protocol):
    def partition_count(self, topic_id: Uuid) -> int:
        """A topic's partition count; -1 if it does not exist."""


Assignor = Callable[[GroupSpec, TopicDescriber], Assignment]


class UnknownTopic(Exception):
    """A member subscribes to a topic that does not exist: Kafka's PartitionAssignorException."""

    def __init__(self, topic_id: Uuid) -> None:
        super().__init__(f"members subscribe to topic {uuid_text(topic_id)}, which does not exist")


def known_partition_count(topics: TopicDescriber, topic_id: Uuid) -> int:
    count = topics.partition_count(topic_id)
    if count < 0:
        raise UnknownTopic(topic_id)
    return count
