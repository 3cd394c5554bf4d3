"""The server-side assignors of KIP-848: which member of a group gets which partitions.

An assignor is a function of the group and its topics; it knows no clock and no disk, and leaves what it is given as it
is. Given what Kafka's assignors are given, it answers what they answer.
"""

from cordwood.coordinator.groups.assignors.range import assign_range
from cordwood.coordinator.groups.assignors.spec import (
    Assignment,
    Assignor,
    GroupSpec,
    MemberSubscription,
    TopicDescriber,
    UnknownTopic,
)
from cordwood.coordinator.groups.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""By the names of `group.consumer.assignors`; the first is Kafka's default."""

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "GroupSpec",
    "MemberSubscription",
    "TopicDescriber",
    "UnknownTopic",
    "assign_range",
    "assign_uniform",
]
