"""The server-side assignors of KIP-848: which member of a group gets which partitions.

An assignor is a pure function of the group and its topics: no clock, no I/O, no changes to its input. Given the input
of Kafka's assignors, it returns their results.
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
"""Assignors by their names in `group.consumer.assignors`; the first is Kafka's default."""

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
